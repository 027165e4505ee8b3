// One end of a stream of messages over gRPC: what gRPC's threads do with it, and what the loop
// does.
//
// Messages are read one at a time: the next one only once the loop has taken the last. So HTTP/2
// holds back a peer that sends more than is taken. Messages to send wait in a queue of bounded
// length; if a peer does not read for so long, the stream is cancelled. Knows nothing about
// messages.
#pragma once

#include <grpcpp/client_context.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/client_callback.h>
#include <grpcpp/support/server_callback.h>

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

namespace ddprun {

// `Reactor`: gRPC's base class of a server's or a client's end; `Context`: its context.
template <class Reactor, class Context, class In, class Out>
class GrpcStream : public Reactor,
                   public std::enable_shared_from_this<GrpcStream<Reactor, Context, In, Out>> {
 public:
  using Sent = Out;
  static constexpr bool kServes = std::is_same_v<Context, grpc::CallbackServerContext>;
  struct Events {                   // On gRPC's threads.
    std::function<void(In)> heard;  // Nothing more is read until ReadOn.
    std::function<void()> ended;    // Last.
  };

  GrpcStream(Context& context, std::size_t most_queued)
      : context_(context), most_queued_(most_queued) {}

  // Lives until gRPC is done with it and no pointer to it is left. A server's end reads its first
  // message at ReadOn.
  void Begin(Events events) {
    self_ = this->shared_from_this();
    events_ = std::move(events);
    if constexpr (!kServes) {
      this->AddHold();
      this->StartCall();
      ReadOn();
    }
  }

  void ReadOn() {
    const std::lock_guard lock(mutex_);
    if (!end_ && !std::exchange(reading_, true)) {
      this->StartRead(&in_);
    }
  }

  void Send(Out message) {
    std::unique_lock lock(mutex_);
    if (end_) {
      return;
    }
    queue_.push_back(std::move(message));
    if (queue_.size() > most_queued_) {
      lock.unlock();
      Cancel({grpc::StatusCode::UNAVAILABLE, "what was sent is not read"});
    } else if (!std::exchange(writing_, true)) {
      this->StartWrite(&queue_.front());
    }
  }

  // Messages that were sent before still leave. The status of a client's end is not sent.
  void End(const grpc::Status& status) {
    std::unique_lock lock(mutex_);
    if (!end_) {
      end_ = status;
      FinishIfIdle(lock);
    }
  }

  // Ends at once, whatever the peer does. A client whose server has nothing more to send hears the
  // status.
  void Cancel(const grpc::Status& status) {
    std::unique_lock lock(mutex_);
    if (!finished_ && (!kServes || writing_)) {
      cancels_ = true;  // The context lives until the stream is finished.
      lock.unlock();
      context_.TryCancel();  // May call OnCancel.
      lock.lock();
      cancels_ = false;
    }
    end_ = end_.value_or(status);
    FinishIfIdle(lock);
  }

 protected:
  void OnReadDone(bool ok) override {
    std::unique_lock lock(mutex_);
    reading_ = false;
    if (ok && !end_) {
      In message = std::move(in_);
      in_ = In();
      lock.unlock();
      events_.heard(std::move(message));
      return;
    }
    if (!end_) {
      end_ = grpc::Status::OK;  // The peer has ended it.
    }
    FinishIfIdle(lock);
  }

  void OnWriteDone(bool ok) override {
    std::unique_lock lock(mutex_);
    queue_.pop_front();
    if (!ok) {
      queue_.clear();
      end_ = end_.value_or(grpc::Status(grpc::StatusCode::UNAVAILABLE, "the stream was given up"));
    }
    if (!queue_.empty()) {
      this->StartWrite(&queue_.front());
      return;
    }
    writing_ = false;
    FinishIfIdle(lock);
  }

  void Done() {
    events_.ended();
    events_ = {};
    self_.reset();  // May delete this.
  }

 private:
  // A server finishes the stream; a client lets gRPC finish it.
  void FinishIfIdle(std::unique_lock<std::mutex>& lock) {
    if (!end_ || writing_ || finished_ || cancels_ || (!kServes && reading_)) {
      return;
    }
    finished_ = true;
    const grpc::Status status = *end_;
    lock.unlock();
    if constexpr (kServes) {
      this->Finish(status);
    } else {
      this->RemoveHold();
    }
  }

  Context& context_;
  const std::size_t most_queued_;
  Events events_;
  In in_;
  std::mutex mutex_;       // Of all that follows.
  std::deque<Out> queue_;  // The first one is being written.
  bool reading_ = false;
  bool writing_ = false;
  bool cancels_ = false;
  bool finished_ = false;            // Nothing is begun any more.
  std::optional<grpc::Status> end_;  // The status that the stream is finished with, once nothing is
                                     // written.
  std::shared_ptr<GrpcStream> self_;
};

template <class In, class Out>
class ServerStream final
    : public GrpcStream<grpc::ServerBidiReactor<In, Out>, grpc::CallbackServerContext, In, Out> {
 public:
  using ServerStream::GrpcStream::GrpcStream;

 private:
  void OnCancel() override {
    this->End({grpc::StatusCode::UNAVAILABLE, "the stream was given up"});
  }
  void OnDone() override { this->Done(); }
};

struct OwnContext {
  grpc::ClientContext own;
};

template <class In, class Out>
class ClientStream final
    : private OwnContext,
      public GrpcStream<grpc::ClientBidiReactor<Out, In>, grpc::ClientContext, In, Out> {
 public:
  explicit ClientStream(std::size_t most_queued) : ClientStream::GrpcStream(own, most_queued) {}
  grpc::ClientContext& context() { return own; }
  // With which the server has ended it. Once it has ended.
  const grpc::Status& status() const { return status_; }

 private:
  void OnDone(const grpc::Status& status) override {
    status_ = status;
    this->Done();
  }
  grpc::Status status_;
};

}  // namespace ddprun
