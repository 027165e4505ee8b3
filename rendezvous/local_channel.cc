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

template <class In, class Out>
class LocalStream final : public MessageStream<In, Out> {
 public:
  LocalStream(Loop& loop, std::shared_ptr<StreamHandlers<In>> own,
              std::shared_ptr<StreamHandlers<Out>> other)
      : loop_(loop), own_(std::move(own)), other_(std::move(other)) {}
  ~LocalStream() override {
    *own_ = {};
    loop_.Post([other = other_] {
      if (const auto ended = other->ended) {
        ended();
      }
    });
  }
  void Listen(std::function<void(const In&)> heard, std::function<void()> ended) override {
    *own_ = {std::move(heard), std::move(ended)};
  }
  void Send(const Out& message) override {
    loop_.Post([other = other_, message] {
      if (const auto heard = other->heard) {  // A copy: it may end the stream.
        heard(message);
      }
    });
  }
  void End(const Error& /*why*/) override {}  // Its owner destroys it next.

 private:
  Loop& loop_;
  const std::shared_ptr<StreamHandlers<In>> own_;
  const std::shared_ptr<StreamHandlers<Out>> other_;
};

}  // namespace

struct LocalSyncChannel::State : std::enable_shared_from_this<State> {
  State(Loop& the_loop, RendezvousHandlers the_handlers)
      : loop(the_loop), handlers(std::move(the_handlers)), limit(the_loop) {}

  // Tells the server that the caller has gone, if it knows the call.
  void GiveUp(const std::shared_ptr<LocalCall>& call) {
    loop.Post([weak = weak_from_this(), call] {
      if (const auto self = weak.lock(); self && call->delivered) {
        self->handlers.cancel(call->name);
      }
    });
  }

  std::unique_ptr<CommandStream> OpenCommands(const Membership& self) {
    if (!handlers.observe) {
      return nullptr;
    }
    const auto node = std::make_shared<StreamHandlers<NodeCommand>>();
    const auto server = std::make_shared<StreamHandlers<AnswerPiece>>();
    loop.Post([weak = weak_from_this(), node, server, self] {
      if (const auto state = weak.lock()) {
        state->handlers.observe(self, std::make_unique<LocalStream<AnswerPiece, NodeCommand>>(
                                          state->loop, server, node));
      }
    });
    return std::make_unique<LocalStream<NodeCommand, AnswerPiece>>(loop, node, server);
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
};

LocalSyncChannel::LocalSyncChannel(Loop& loop, RendezvousHandlers handlers)
    : state_(std::make_shared<State>(loop, std::move(handlers))) {}

LocalSyncChannel::~LocalSyncChannel() {
  state_->Cancel();
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

std::unique_ptr<CommandStream> LocalSyncChannel::OpenCommands(const Membership& self) {
  return state_->OpenCommands(self);
}

}  // namespace ddprun
