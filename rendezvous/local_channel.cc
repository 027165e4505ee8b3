#include "rendezvous/local_channel.h"

#include <optional>
#include <utility>

#include "common/check.h"
#include "common/lifetime.h"

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

class LocalSyncChannel final : public SyncChannel {
 public:
  LocalSyncChannel(Loop& loop, RendezvousHandlers handlers)
      : loop_(loop), handlers_(std::move(handlers)), limit_(loop) {}
  ~LocalSyncChannel() override { Cancel(); }

  void Send(const NodeReport& report, Duration deadline, Done done) override {
    Cancel();
    current_ =
        std::make_shared<LocalCall>(LocalCall{NameOf(report), deadline, std::move(done), false});
    limit_.ArmAt(loop_.Now() + deadline, [this] { OnDeadline(); });
    loop_.Post(life_.Guard([this, call = current_, report] {
      if (call->done) {
        call->delivered = true;
        handlers_.sync(report, std::make_shared<LocalPendingSync>(loop_, call));
      }
    }));
  }

  void Cancel() override {
    limit_.Cancel();
    if (current_ && current_->done) {
      current_->done = nullptr;
      GiveUp(current_);
    }
    current_.reset();
  }

  std::unique_ptr<CommandStream> OpenCommands(const Membership& self) override {
    if (!handlers_.observe) {
      return nullptr;
    }
    const auto node = std::make_shared<StreamHandlers<NodeCommand>>();
    const auto server = std::make_shared<StreamHandlers<AnswerPiece>>();
    loop_.Post(life_.Guard([this, node, server, self] {
      handlers_.observe(
          self, std::make_unique<LocalStream<AnswerPiece, NodeCommand>>(loop_, server, node));
    }));
    return std::make_unique<LocalStream<NodeCommand, AnswerPiece>>(loop_, node, server);
  }

 private:
  // Tells the server that the caller has gone, if it knows the call.
  void GiveUp(const std::shared_ptr<LocalCall>& call) {
    loop_.Post(life_.Guard([this, call] {
      if (call->delivered) {
        handlers_.cancel(call->name);
      }
    }));
  }

  void OnDeadline() {
    const auto call = std::exchange(current_, nullptr);
    if (const auto done = std::exchange(call->done, nullptr)) {
      GiveUp(call);
      done(call->name.sequence,
           Error{ErrorKind::kUnavailable, "this node's own rendezvous gave no answer within " +
                                              FormatDuration(call->deadline)});
    }
  }

  Loop& loop_;
  const RendezvousHandlers handlers_;
  LoopTimer limit_;
  std::shared_ptr<LocalCall> current_;
  const Lifetime life_;
};

}  // namespace

std::unique_ptr<SyncChannel> LocalChannelTo(Loop& loop, RendezvousHandlers handlers) {
  return std::make_unique<LocalSyncChannel>(loop, std::move(handlers));
}

}  // namespace ddprun
