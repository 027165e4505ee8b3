#include "rendezvous/failover/following_channel.h"

#include <utility>

namespace ddprun {

void FollowingChannel::SpeakThrough(std::unique_ptr<SyncChannel> channel) {
  channel_ = std::move(channel);
  if (open_) {
    Forward();
  } else if (channel_ && changed_) {
    loop_.Post(life_.Guard([this] {
      if (channel_ && !open_) {
        changed_();
      }
    }));
  }
}

void FollowingChannel::Send(const NodeReport& report, Duration deadline, Done done) {
  if (sends_) {
    sends_(report);
  }
  open_ = Open{report, deadline, std::move(done)};
  Forward();
}

void FollowingChannel::Cancel() {
  limit_.Cancel();
  open_.reset();
  if (channel_) {
    channel_->Cancel();
  }
}

void FollowingChannel::Forward() {
  if (channel_) {
    limit_.Cancel();
    channel_->Send(open_->report, open_->deadline,
                   [this](std::uint64_t sequence, Result<SyncReply> reply) {
                     OnDone(sequence, std::move(reply));
                   });
    return;
  }
  limit_.ArmAt(loop_.Now() + open_->deadline, [this] {
    OnDone(open_->report.sequence,
           Error{ErrorKind::kUnavailable, "no node serves the rendezvous at the moment"});
  });
}

void FollowingChannel::OnDone(std::uint64_t sequence, Result<SyncReply> reply) {
  const Done done = std::move(open_->done);
  open_.reset();
  if (reply && heard_) {
    heard_(*reply);
  } else if (!reply && failed_) {
    failed_();
  }
  done(sequence, std::move(reply));
}

std::unique_ptr<CommandStream> FollowingChannel::OpenCommands(const Membership& self) {
  return channel_ ? channel_->OpenCommands(self) : nullptr;
}

}  // namespace ddprun
