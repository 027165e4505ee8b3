#include "launcher/slurm/sealed_channel.h"

#include <optional>
#include <utility>

#include "launcher/slurm/sealed_token.h"
#include "rendezvous/client.h"

namespace ddprun {
namespace {

constexpr Duration kSealPatience{1'000};

}  // namespace

class SealedChannel::State : public std::enable_shared_from_this<SealedChannel::State> {
 public:
  State(Loop& loop, const Endpoint& endpoint, const RunId& run, Access access)
      : loop_(loop), endpoint_(endpoint), run_(run), access_(std::move(access)) {
    Connect();
  }

  void Send(const NodeReport& report, Duration deadline, Done done) {
    open_ = Open{report, deadline, std::move(done)};
    Forward();
  }

  void Cancel() {
    open_.reset();
    channel_->Cancel();
  }

  void SendRoad(const RoadCall& call, RoadHeard heard) {
    channel_->SendRoad(call, std::move(heard));
  }

  void Close() {
    Cancel();
    channel_.reset();
  }

 private:
  struct Open {
    NodeReport report;
    Duration deadline{0};
    Done done;
  };

  void Connect() { channel_ = std::make_unique<GrpcSyncChannel>(loop_, endpoint_, access_); }

  void Forward() {
    channel_->Send(open_->report, open_->deadline,
                   [this](std::uint64_t sequence, Result<SyncReply> reply) {
                     OnDone(sequence, std::move(reply));
                   });
  }

  void OnDone(std::uint64_t sequence, Result<SyncReply> reply) {
    if (!reply && reply.error().kind == ErrorKind::kInvalid) {
      Ask(sequence, reply.error());
    } else {
      Deliver(std::move(reply));
    }
  }

  void Ask(std::uint64_t sequence, Error refusal) {
    const auto token = std::make_shared<Result<std::string>>(std::string());
    loop_.RunBlocking(
        [token, endpoint = endpoint_, run = run_] {
          *token = TokenSealedAt(endpoint, run, kSealPatience);
        },
        [self = shared_from_this(), token, sequence, refusal = std::move(refusal)]() mutable {
          self->OnToken(sequence, *token, std::move(refusal));
        });
  }

  void OnToken(std::uint64_t sequence, const Result<std::string>& token, Error refusal) {
    if (!open_ || open_->report.sequence != sequence) {
      return;  // Given up meanwhile; the call after it finds out for itself.
    }
    if (token && !token->empty() && *token != access_.token) {
      access_.token = *token;
      Connect();
      Forward();
      return;
    }
    Deliver(token ? std::move(refusal) : token.error());
  }

  // `done` may send again, or destroy the channel.
  void Deliver(Result<SyncReply> reply) {
    const Open ended = *std::exchange(open_, std::nullopt);
    ended.done(ended.report.sequence, std::move(reply));
  }

  Loop& loop_;
  const Endpoint endpoint_;
  const RunId run_;
  Access access_;
  std::unique_ptr<SyncChannel> channel_;
  std::optional<Open> open_;
};

SealedChannel::SealedChannel(Loop& loop, const Endpoint& endpoint, const RunId& run, Access access)
    : state_(std::make_shared<State>(loop, endpoint, run, std::move(access))) {}

SealedChannel::~SealedChannel() {
  state_->Close();
}

void SealedChannel::Send(const NodeReport& report, Duration deadline, Done done) {
  state_->Send(report, deadline, std::move(done));
}

void SealedChannel::Cancel() {
  state_->Cancel();
}

void SealedChannel::SendRoad(const RoadCall& call, RoadHeard heard) {
  state_->SendRoad(call, std::move(heard));
}

}  // namespace ddprun
