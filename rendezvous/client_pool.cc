#include "rendezvous/client_pool.h"

#include <grpcpp/client_context.h>

#include <algorithm>
#include <string>
#include <utility>

#include "common/log.h"
#include "proto/rendezvous.grpc.pb.h"
#include "rendezvous/grpc_channel.h"
#include "rendezvous/listener/grpc_admission.h"
#include "rendezvous/stream_end.h"
#include "rendezvous/wire/convert.h"

namespace ddprun {
namespace {

using WireStream = ClientStream<v1::PoolReply, v1::PoolReport>;
using PoolEnd = StreamEnd<PoolReply, PoolReport, WireStream>;
constexpr std::size_t kMostUnsent = 16;
constexpr Duration kFirstRetry{50};
constexpr Duration kLongestRetry{1'000};
constexpr Duration kConnectLimit{10'000};

Error NoPool(const Endpoint& endpoint) {
  return {ErrorKind::kRefused,
          "the rendezvous at " + ToString(endpoint) +
              " has no pool: start it with a token (--token-file=FILE) and without --run-dir"};
}

Error WhyEnded(const grpc::Status& status, const Endpoint& endpoint, const Access& access) {
  if (status.error_code() == grpc::StatusCode::UNIMPLEMENTED) {
    return NoPool(endpoint);
  }
  return status.ok() ? Error{ErrorKind::kUnavailable,
                             "the pool at " + ToString(endpoint) + " has ended the connection"}
                     : ErrorOf(status, endpoint, kConnectLimit, access);
}

}  // namespace

class PoolClient::State : public std::enable_shared_from_this<PoolClient::State> {
 public:
  State(Loop& loop, const Endpoint& endpoint, Access access, Told told)
      : loop_(loop),
        endpoint_(endpoint),
        access_(std::move(access)),
        told_(std::move(told)),
        timer_(loop) {}

  void Say(const PoolReport& report) {
    const bool first = !report_;
    report_ = report;
    if (stream_) {
      SendReport();
    } else if (first) {
      LookUp();
    }
  }

  void Close() {
    closed_ = true;
    timer_.Cancel();
    stream_.reset();
    in_grpc_.Wait();
  }

 private:
  void LookUp() {
    LookUpTarget(loop_, endpoint_, [weak = weak_from_this()](const Result<std::string>& target) {
      if (const auto self = weak.lock(); self && !self->closed_) {
        self->Open(target);
      }
    });
  }

  void Open(const Result<std::string>& target) {
    if (!target) {
      return OnLost(target.error());
    }
    const auto stub =
        v1::Rendezvous::NewStub(OpenChannel(*target, endpoint_.host, access_, kPoolSilence));
    stream_ = OpenStream<PoolReport>(
        loop_, in_grpc_, access_.token, std::make_shared<WireStream>(kMostUnsent),
        [&stub](auto* context, auto* stream) { stub->async()->Pool(context, stream); },
        FromProto<PoolReply, v1::PoolReply>);
    stream_->Listen([this](const PoolReply& reply) { OnReply(reply); },
                    [this] { OnLost(WhyEnded(stream_->call().status(), endpoint_, access_)); });
    heard_ = false;
    SendReport();
  }

  void SendReport() {
    stream_->Send(*report_);
    timer_.ArmAt(loop_.Now() + kPoolPeriod, [this] { SendReport(); });
  }

  void OnReply(const PoolReply& reply) {
    heard_ = true;
    told_.heard(reply);  // May end this client.
  }

  void OnLost(const Error& why) {
    stream_.reset();
    retry_ = heard_ ? kFirstRetry : std::min(kLongestRetry, retry_ * 2);
    heard_ = false;
    timer_.ArmAt(loop_.Now() + retry_, [this] { LookUp(); });
    told_.lost(why);
  }

  Loop& loop_;
  const Endpoint endpoint_;
  const Access access_;
  const Told told_;
  std::optional<PoolReport> report_;
  std::unique_ptr<PoolEnd> stream_;
  bool heard_ = false;  // On this stream.
  bool closed_ = false;
  Duration retry_ = kFirstRetry;
  LoopTimer timer_;
  CallsInGrpc in_grpc_;
};

PoolClient::PoolClient(Loop& loop, const Endpoint& endpoint, Access access, Told told)
    : state_(std::make_shared<State>(loop, endpoint, std::move(access), std::move(told))) {}

PoolClient::~PoolClient() {
  state_->Close();
}

void PoolClient::Say(const PoolReport& report) {
  state_->Say(report);
}

Result<PoolStatus> AskPool(const Endpoint& endpoint, const Access& access, Duration timeout) {
  ASSIGN_OR_RETURN(const std::string target, GrpcTarget(endpoint, Lookup::kMayBlock));
  const auto stub = v1::Rendezvous::NewStub(OpenChannel(target, endpoint.host, access));
  grpc::ClientContext context;
  context.set_deadline(gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                                    gpr_time_from_millis(timeout.count(), GPR_TIMESPAN)));
  ShowToken(context, access.token);
  const auto stream = stub->Pool(&context);
  v1::PoolReport question;
  ToProto(PoolReport(PoolQuestion{}), &question);
  v1::PoolReply wire;
  const bool answered = stream->Write(question) && stream->Read(&wire);
  context.TryCancel();
  const grpc::Status status = stream->Finish();
  if (!answered) {
    return WhyEnded(status, endpoint, access);
  }
  ASSIGN_OR_RETURN(const PoolReply reply, FromProto<PoolReply>(wire));
  const PoolStatus* const known = std::get_if<PoolStatus>(&reply);
  return known != nullptr ? Result<PoolStatus>(*known) : NoPool(endpoint);
}

}  // namespace ddprun
