#include "launcher/slurm/sealed_channel.h"

#include <utility>

#include "launcher/slurm/sealed_token.h"
#include "rendezvous/client.h"

namespace ddprun {
namespace {

constexpr Duration kSealPatience{1'000};

}  // namespace

SealedChannel::SealedChannel(Loop& loop, const Endpoint& endpoint, const RunId& run, Access access)
    : loop_(loop), endpoint_(endpoint), run_(run), access_(std::move(access)) {
  Connect();
}

void SealedChannel::Send(const NodeReport& report, Duration deadline, Done done) {
  open_ = Open{report, deadline, std::move(done)};
  Forward();
}

void SealedChannel::Cancel() {
  open_.reset();
  channel_->Cancel();
}

void SealedChannel::SendRoad(const RoadCall& call, RoadHeard heard) {
  channel_->SendRoad(call, std::move(heard));
}

void SealedChannel::Connect() {
  channel_ = std::make_unique<GrpcSyncChannel>(loop_, endpoint_, access_);
}

void SealedChannel::Forward() {
  channel_->Send(open_->report, open_->deadline,
                 [this](std::uint64_t sequence, Result<SyncReply> reply) {
                   OnDone(sequence, std::move(reply));
                 });
}

void SealedChannel::OnDone(std::uint64_t sequence, Result<SyncReply> reply) {
  if (reply || reply.error().kind != ErrorKind::kInvalid) {
    Deliver(std::move(reply));
    return;
  }
  const auto token = std::make_shared<Result<std::string>>(std::string());
  loop_.RunBlocking([token, endpoint = endpoint_,
                     run = run_] { *token = TokenSealedAt(endpoint, run, kSealPatience); },
                    [this, alive = alive_, token, sequence, refusal = reply.error()]() mutable {
                      if (*alive) {
                        OnToken(sequence, *token, std::move(refusal));
                      }
                    });
}

void SealedChannel::OnToken(std::uint64_t sequence, const Result<std::string>& token,
                            Error refusal) {
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
void SealedChannel::Deliver(Result<SyncReply> reply) {
  const Open ended = *std::exchange(open_, std::nullopt);
  ended.done(ended.report.sequence, std::move(reply));
}

}  // namespace ddprun
