#include "launcher/slurm/sealed_channel.h"

#include <string>
#include <utility>

#include "launcher/slurm/sealed_token.h"
#include "rendezvous/client.h"

namespace ddprun {
namespace {

constexpr Duration kSealPatience{1'000};

}  // namespace

SealedChannel::SealedChannel(Loop& loop, const Endpoint& endpoint, Access access)
    : loop_(loop),
      endpoint_(endpoint),
      access_(std::move(access)),
      channel_(GrpcChannelTo(loop_, endpoint_, access_)) {}

void SealedChannel::Send(const NodeReport& report, Duration deadline, Done done) {
  question_.Renew();
  channel_->Send(report, deadline, [=, this](std::uint64_t sequence, Result<SyncReply> reply) {
    if (!reply && reply.error().kind == ErrorKind::kInvalid) {
      AskForToken(report, deadline, done, reply.error());
    } else {
      const Done ended = done;  // It may destroy the channel.
      ended(sequence, std::move(reply));
    }
  });
}

void SealedChannel::Cancel() {
  question_.Renew();
  channel_->Cancel();
}

std::unique_ptr<CommandStream> SealedChannel::OpenCommands(const Membership& self) {
  return channel_->OpenCommands(self);
}

void SealedChannel::AskForToken(const NodeReport& report, Duration deadline, const Done& done,
                                const Error& refusal) {
  const auto token = std::make_shared<Result<std::string>>(std::string());
  loop_.RunBlocking(
      [token, endpoint = endpoint_] { *token = TokenSealedAt(endpoint, kSealPatience); },
      question_.Guard([=, this] {  // If it was given up, the call after it finds out for itself.
        if (!*token || (*token)->empty() || **token == access_.token) {
          done(report.sequence, *token ? refusal : token->error());
          return;
        }
        access_.token = **token;
        channel_ = GrpcChannelTo(loop_, endpoint_, access_);
        Send(report, deadline, done);
      }));
}

}  // namespace ddprun
