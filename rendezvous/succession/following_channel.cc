#include "rendezvous/succession/following_channel.h"

#include <utility>

namespace ddprun {

void FollowingChannel::SpeakThrough(std::unique_ptr<SyncChannel> channel) {
  channel_ = std::move(channel);
  if (road_heard_) {
    loop_.Post([this, alive = alive_, heard = std::exchange(road_heard_, nullptr)] {
      if (*alive) {
        heard(Error{ErrorKind::kUnavailable, "another server has taken over"});
      }
    });
  }
  if (open_) {
    Forward();
  } else if (channel_ && changed_) {
    loop_.Post([this, alive = alive_] {
      if (*alive && channel_ && !open_) {
        changed_();
      }
    });
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

void FollowingChannel::SendRoad(const RoadCall& call, RoadHeard heard) {
  road_heard_ = std::move(heard);
  if (channel_) {
    channel_->SendRoad(call, [this](Result<RoadReply> reply) {
      if (const RoadHeard hears = std::exchange(road_heard_, nullptr)) {
        hears(std::move(reply));
      }
    });
    return;
  }
  loop_.Post([this, alive = alive_, hears = std::exchange(road_heard_, nullptr)] {
    if (*alive) {
      hears(Error{ErrorKind::kUnavailable, "no node serves the rendezvous at the moment"});
    }
  });
}

}  // namespace ddprun
