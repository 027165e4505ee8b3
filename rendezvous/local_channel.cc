#include "rendezvous/local_channel.h"

#include <optional>
#include <utility>

#include "common/check.h"

namespace ddprun {
namespace {

// One call, as both sides see it; taken by whichever ends it first.
struct LocalCall {
  CallName name;
  Duration deadline{0};
  SyncChannel::Done done;  // Empty: ended.
  bool delivered = false;
};

class LocalPendingSync final : public PendingSync {
 public:
  LocalPendingSync(Loop& loop, std::shared_ptr<LocalCall> call)
      : loop_(loop), call_(std::move(call)) {}
  ~LocalPendingSync() override {
    if (call_) {
      End(Error{ErrorKind::kUnavailable, "superseded"});
    }
  }

  void Answer(const SyncReply& reply) override { End(reply); }
  void Refuse(const Error& error) override { End(error); }

 private:
  void End(Result<SyncReply> result) {
    CHECK(call_ != nullptr);
    loop_.Post([call = std::exchange(call_, nullptr), result = std::move(result)] {
      if (const auto done = std::exchange(call->done, nullptr)) {
        done(call->name.sequence, result);
      }
    });
  }

  Loop& loop_;
  std::shared_ptr<LocalCall> call_;
};

// The second call. Whoever ends it first takes `heard`.
struct LocalRoad {
  SyncChannel::RoadHeard heard;
  bool delivered = false;
};

class LocalPendingRoad final : public PendingRoad {
 public:
  LocalPendingRoad(Loop& loop, std::shared_ptr<LocalRoad> road)
      : PendingRoad(road), loop_(loop), road_(std::move(road)) {}
  ~LocalPendingRoad() override {
    if (road_) {
      End(Error{ErrorKind::kUnavailable, "superseded"});
    }
  }

  void Answer(const RoadReply& reply) override { End(reply); }
  void Refuse(const Error& error) override { End(error); }

 private:
  void End(Result<RoadReply> result) {
    loop_.Post([road = std::exchange(road_, nullptr), result = std::move(result)] {
      if (const auto heard = std::exchange(road->heard, nullptr)) {
        heard(result);
      }
    });
  }

  Loop& loop_;
  std::shared_ptr<LocalRoad> road_;
};

}  // namespace

struct LocalSyncChannel::State : std::enable_shared_from_this<State> {
  State(Loop& the_loop, RendezvousHandlers the_handlers)
      : loop(the_loop), handlers(std::move(the_handlers)), limit(the_loop) {}

  // Tells the server that nobody waits for this call any more, if it has heard of it.
  void GiveUp(const std::shared_ptr<LocalCall>& call) {
    loop.Post([weak = weak_from_this(), call] {
      if (const auto self = weak.lock(); self && call->delivered) {
        self->handlers.cancel(call->name);
      }
    });
  }

  void SendRoad(const RoadCall& call, SyncChannel::RoadHeard heard) {
    EndRoad();
    if (!handlers.road) {
      return;
    }
    road = std::make_shared<LocalRoad>(LocalRoad{std::move(heard)});
    loop.Post([weak = weak_from_this(), sent = road, call] {
      if (const auto self = weak.lock(); self && sent->heard) {
        sent->delivered = true;
        self->handlers.road(call, std::make_shared<LocalPendingRoad>(self->loop, sent));
      }
    });
  }

  void EndRoad() {
    if (!road || !road->heard) {
      return;
    }
    road->heard = nullptr;
    loop.Post([weak = weak_from_this(), given_up = std::exchange(road, nullptr)] {
      if (const auto self = weak.lock(); self && given_up->delivered) {
        self->handlers.gone(given_up.get());
      }
    });
  }

  void Cancel() {
    limit.Cancel();
    if (current && current->done) {
      current->done = nullptr;
      GiveUp(current);
    }
    current.reset();
  }

  void OnDeadline() {
    const auto call = std::exchange(current, nullptr);
    if (const auto done = std::exchange(call->done, nullptr)) {
      GiveUp(call);
      done(call->name.sequence,
           Error{ErrorKind::kUnavailable, "this node's own rendezvous gave no answer within " +
                                              FormatDuration(call->deadline)});
    }
  }

  Loop& loop;
  RendezvousHandlers handlers;
  LoopTimer limit;
  std::shared_ptr<LocalCall> current;
  std::shared_ptr<LocalRoad> road;
};

LocalSyncChannel::LocalSyncChannel(Loop& loop, RendezvousHandlers handlers)
    : state_(std::make_shared<State>(loop, std::move(handlers))) {}

LocalSyncChannel::~LocalSyncChannel() {
  state_->Cancel();
  state_->EndRoad();
}

void LocalSyncChannel::Send(const NodeReport& report, Duration deadline, Done done) {
  state_->Cancel();
  state_->current =
      std::make_shared<LocalCall>(LocalCall{NameOf(report), deadline, std::move(done), false});
  state_->limit.ArmAt(state_->loop.Now() + deadline,
                      [weak = std::weak_ptr(state_)] { weak.lock()->OnDeadline(); });
  state_->loop.Post([weak = std::weak_ptr(state_), call = state_->current, report] {
    if (const auto self = weak.lock(); self && call->done) {
      call->delivered = true;
      self->handlers.sync(report, std::make_shared<LocalPendingSync>(self->loop, call));
    }
  });
}

void LocalSyncChannel::Cancel() {
  state_->Cancel();
}

void LocalSyncChannel::SendRoad(const RoadCall& call, RoadHeard heard) {
  state_->SendRoad(call, std::move(heard));
}

}  // namespace ddprun
