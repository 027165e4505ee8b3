#include "rendezvous/client.h"

#include <grpcpp/client_context.h>

#include <optional>
#include <utility>

#include "common/lifetime.h"
#include "common/slug.h"
#include "common/wall_clock.h"
#include "proto/rendezvous.grpc.pb.h"
#include "rendezvous/grpc_channel.h"
#include "rendezvous/listener/grpc_admission.h"
#include "rendezvous/stream_end.h"
#include "rendezvous/term_bounds.h"
#include "rendezvous/wire/convert.h"

namespace ddprun {
namespace {

using Stub = v1::Rendezvous::Stub;

// A name may follow its server to another address, so an older address is looked up again.
constexpr Duration kLookUpAgainAfter{1'000};

// One call. gRPC uses it on its own threads until its callback. `done` is called on the loop.
struct Call {
  grpc::ClientContext context;
  v1::SyncRequest request;
  v1::SyncReply reply;
  std::uint64_t sequence = 0;
  Duration deadline{0};
  Time due;
  std::int64_t sent_unix_us = 0;
  std::int64_t heard_unix_us = 0;
  bool began_ready = false;  // The connection was ready when the call began.
  SyncChannel::Done done;
};

// A server reads little of a connection before its first call is accepted. So the first call leaves
// out long texts; the next one follows its answer at once and has them. The first failure, most
// likely the run's root cause, keeps its texts.
void LeaveOutTexts(v1::SyncRequest& request) {
  if (request.echo().has_finish()) {
    request.mutable_echo()->mutable_finish()->clear_root();
  }
  for (int i = 1; i < request.failures_size(); ++i) {
    v1::WorkerFailure& failure = *request.mutable_failures(i);
    failure.clear_last_lines();
    failure.clear_error_message();
    failure.clear_traceback();
    failure.clear_error_file();
  }
}

using WireCommands = ClientStream<v1::Command, v1::NodeMessage>;
constexpr std::size_t kMostUnsentPieces = 6 * kMostAsks;  // One of each request, and its beginning.

Result<SyncReply> ReplyOf(const Call& call, const grpc::Status& status, const Endpoint& endpoint,
                          const Access& access) {
  if (!status.ok()) {
    return ErrorOf(status, endpoint, call.deadline, access);
  }
  Result<SyncReply> reply = FromProto<SyncReply>(call.reply);
  const auto clock = OffsetOf(call.sent_unix_us, call.reply.received_unix_us(),
                              call.reply.sent_unix_us(), call.heard_unix_us);
  if (!reply) {
    return Error{ErrorKind::kRefused,
                 "the rendezvous at " + ToString(endpoint) + " sent a malformed reply: " +
                     Continue(reply.error().message, ClockAt(endpoint, clock))};
  }
  reply->clock = clock;
  return reply;
}

class GrpcSyncChannel final : public SyncChannel {
 public:
  GrpcSyncChannel(Loop& loop, const Endpoint& endpoint, Access access)
      : loop_(loop), endpoint_(endpoint), access_(std::move(access)), limit_(loop) {}
  ~GrpcSyncChannel() override;

  void Send(const NodeReport& report, Duration deadline, Done done) override;
  void Cancel() override;
  // None if there is no connection.
  std::unique_ptr<CommandStream> OpenCommands(const Membership& self) override;

 private:
  void CancelCommands();
  void LookUp();
  void OnOverdue();
  void OnTarget(const Result<std::string>& target);
  void Connect();
  void Start();
  void StartAgain();
  void OnStatus(const std::shared_ptr<Call>& call, const grpc::Status& status);
  void End(std::shared_ptr<Call> ended, Result<SyncReply> reply);

  Loop& loop_;
  const Endpoint endpoint_;
  const Access access_;
  std::shared_ptr<Call> current_;
  std::weak_ptr<WireCommands> commands_;
  std::shared_ptr<grpc::Channel> channel_;  // Of stub_, or of an earlier stub.
  std::unique_ptr<Stub> stub_;  // None: not connected yet, or the connection was given up.
  bool unanswered_ = true;      // No call on this connection was answered; it leads to target_.
  std::string target_;          // The last look-up's result.
  Time looked_up_;
  bool is_name_ = false;
  bool looking_up_ = false;
  LoopTimer limit_;  // The current call's deadline. gRPC's own would cost a timer at both ends.
  CallsInGrpc in_grpc_;
  const Lifetime life_;
};

GrpcSyncChannel::~GrpcSyncChannel() {
  Cancel();
  CancelCommands();
  in_grpc_.Wait();  // Its threads post to the loop, which may be destroyed next.
}

void GrpcSyncChannel::Send(const NodeReport& report, Duration deadline, Done done) {
  Cancel();
  current_ = std::make_shared<Call>();
  ToProto(report, &current_->request);
  current_->sequence = report.sequence;
  current_->deadline = deadline;
  current_->due = loop_.Now() + deadline;
  current_->done = std::move(done);
  limit_.ArmAt(current_->due, [this] { OnOverdue(); });
  const bool old = is_name_ && loop_.Now() - looked_up_ > kLookUpAgainAfter;
  if (!stub_ && !target_.empty() && !old) {
    Connect();
  }
  const bool connected = stub_ != nullptr;
  if (connected) {
    Start();
  }
  if (!connected || (old && unanswered_)) {
    LookUp();  // Beside the call: a name server that does not answer must not delay it.
  }
}

void GrpcSyncChannel::Cancel() {
  limit_.Cancel();
  if (current_) {
    current_->context.TryCancel();
    current_.reset();
  }
}

// The next call makes a new connection, since the old one may be half open. But a connection that
// is still being made, or was when the call began, is kept: if ten thousand nodes come at once,
// their server would otherwise shake hands only with nodes that have just given up. gRPC bounds the
// time of a handshake. A look-up that is under way cannot be cancelled; the call that waits for it
// can.
void GrpcSyncChannel::OnOverdue() {
  current_->context.TryCancel();
  const std::string waited = FormatDuration(current_->deadline);
  const bool connected = stub_ != nullptr;
  const auto state = connected ? channel_->GetState(false) : GRPC_CHANNEL_IDLE;
  const bool just_ready = state == GRPC_CHANNEL_READY && !current_->began_ready;
  if (state != GRPC_CHANNEL_CONNECTING && !just_ready) {
    stub_.reset();
  }
  const std::string what =
      connected ? "no answer within " : "looking up '" + endpoint_.host + "' takes longer than ";
  End(current_, Unreachable(endpoint_, what + waited));
}

void GrpcSyncChannel::LookUp() {
  if (looking_up_) {
    return;  // A look-up is under way, and its answer serves this call too.
  }
  looking_up_ = true;
  const Result<std::string> address = GrpcTarget(endpoint_, Lookup::kAddressOnly);
  const auto deliver = life_.Guard([this](const Result<std::string>& target) { OnTarget(target); });
  is_name_ = address && address->empty();
  if (is_name_) {
    LookUpTarget(loop_, endpoint_, deliver);
  } else {
    loop_.Post([deliver, address] { deliver(address); });
  }
}

// If there is a connection, the current call runs already, and only a new address matters.
void GrpcSyncChannel::OnTarget(const Result<std::string>& target) {
  looking_up_ = false;
  if (!target) {
    if (current_ && !stub_) {
      End(current_, target.error());
    }
    return;
  }
  looked_up_ = loop_.Now();
  const bool moved = std::exchange(target_, *target) != *target;
  if (stub_ && unanswered_ && moved) {
    stub_.reset();
    if (current_) {
      StartAgain();
    }
  } else if (current_ && !stub_) {
    Connect();
    Start();
  }
}

// Repeats the current call on a connection to the name's new address.
void GrpcSyncChannel::StartAgain() {
  const auto again = std::make_shared<Call>();
  again->request = current_->request;
  again->sequence = current_->sequence;
  again->deadline = current_->deadline;
  again->due = current_->due;
  again->done = std::move(current_->done);
  current_->context.TryCancel();
  current_ = again;
  Connect();
  Start();
}

void GrpcSyncChannel::Connect() {
  CancelCommands();  // Its connection was given up.
  channel_ = OpenChannel(target_, endpoint_.host, access_);
  stub_ = v1::Rendezvous::NewStub(channel_);
  unanswered_ = true;
}

void GrpcSyncChannel::Start() {
  if (unanswered_) {
    LeaveOutTexts(current_->request);
  }
  current_->began_ready = channel_->GetState(false) == GRPC_CHANNEL_READY;
  ShowToken(current_->context, access_.token);
  in_grpc_.Add();
  const auto call = current_;
  call->sent_unix_us = UnixMicroseconds();
  stub_->async()->Sync(&call->context, &call->request, &call->reply,
                       [call, &loop = loop_, in_grpc = in_grpc_,
                        then = life_.Guard([this, call](const grpc::Status& status) {
                          OnStatus(call, status);
                        })](grpc::Status status) {
                         call->heard_unix_us = UnixMicroseconds();
                         loop.Post([then, status = std::move(status)] { then(status); });
                         in_grpc.Remove();
                       });
}

void GrpcSyncChannel::OnStatus(const std::shared_ptr<Call>& call, const grpc::Status& status) {
  if (call != current_) {
    return;  // Replaced or given up in between.
  }
  // The next call makes a new connection: on this one gRPC would refuse calls for 100 ms before it
  // tries again.
  if (status.error_code() == grpc::StatusCode::UNAVAILABLE) {
    stub_.reset();
  }
  unanswered_ &= !status.ok();
  End(call, ReplyOf(*call, status, endpoint_, access_));
}

// `done` may send again, or destroy the channel.
void GrpcSyncChannel::End(std::shared_ptr<Call> ended, Result<SyncReply> reply) {
  limit_.Cancel();
  current_.reset();
  ended->done(ended->sequence, std::move(reply));
}

std::unique_ptr<CommandStream> GrpcSyncChannel::OpenCommands(const Membership& self) {
  CancelCommands();
  if (!stub_ || unanswered_) {  // A server reads little before the first call is accepted.
    return nullptr;
  }
  const auto call = std::make_shared<WireCommands>(kMostUnsentPieces);
  auto commands = OpenStream<AnswerPiece>(
      loop_, in_grpc_, access_.token, call,
      [this](auto* context, auto* stream) { stub_->async()->Observe(context, stream); },
      FromProto<NodeCommand, v1::Command>);
  v1::NodeMessage hello;
  ToProto(self, hello.mutable_self());
  call->Send(std::move(hello));
  commands_ = call;
  return commands;
}

void GrpcSyncChannel::CancelCommands() {
  if (const auto call = commands_.lock()) {
    call->Cancel(grpc::Status::CANCELLED);
  }
}

}  // namespace

std::unique_ptr<SyncChannel> GrpcChannelTo(Loop& loop, const Endpoint& endpoint, Access access) {
  return std::make_unique<GrpcSyncChannel>(loop, endpoint, std::move(access));
}

}  // namespace ddprun
