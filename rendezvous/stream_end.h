// The loop's end of a stream over gRPC, of a server and of a client alike: messages as values, and
// handlers that are called on the loop.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "common/loop.h"
#include "rendezvous/grpc_channel.h"
#include "rendezvous/grpc_stream.h"
#include "rendezvous/listener/grpc_admission.h"
#include "rendezvous/transport.h"
#include "rendezvous/wire/convert.h"

namespace ddprun {

// Calls that gRPC has not let go of: its threads post to the loop, which must not go before.
class CallsInGrpc {
 public:
  void Add() const { ++*calls_; }
  void Remove() const {
    --*calls_;
    calls_->notify_all();
  }
  void Wait() const {
    for (int calls = calls_->load(); calls != 0; calls = calls_->load()) {
      calls_->wait(calls);
    }
  }

 private:
  std::shared_ptr<std::atomic<int>> calls_ = std::make_shared<std::atomic<int>>(0);
};

// `Call`: a ServerStream or a ClientStream.
template <class In, class Out, class Call>
class StreamEnd : public MessageStream<In, Out> {
 public:
  StreamEnd(std::shared_ptr<Call> call, std::shared_ptr<StreamHandlers<In>> handlers)
      : call_(std::move(call)), handlers_(std::move(handlers)) {}
  ~StreamEnd() override { GiveUp({ErrorKind::kUnavailable, "superseded"}); }

  void Listen(std::function<void(const In&)> heard, std::function<void()> ended) override {
    *handlers_ = {std::move(heard), std::move(ended)};
    call_->ReadOn();
  }
  void Send(const Out& message) override {
    typename Call::Sent wire;
    ToProto(message, &wire);
    call_->Send(std::move(wire));
  }
  void End(const Error& why) override { call_->End(StatusOf(why)); }
  // At once; its owner hears nothing more.
  void GiveUp(const Error& why) {
    *handlers_ = {};
    call_->Cancel(StatusOf(why));
  }
  const Call& call() const { return *call_; }

 private:
  const std::shared_ptr<Call> call_;
  const std::shared_ptr<StreamHandlers<In>> handlers_;
};

// From gRPC's threads: nothing more is read before the loop has taken this.
template <class Call, class In>
void Deliver(Loop& loop, const std::shared_ptr<Call>& call,
             const std::shared_ptr<StreamHandlers<In>>& handlers, In message) {
  loop.Post([call, handlers, message = std::move(message)] {
    if (const auto heard = handlers->heard) {  // A copy: it may end the stream.
      heard(message);
      call->ReadOn();
    }
  });
}

// Opens a client's: `start` gives it to gRPC. A message that `read` refuses ends the stream.
template <class Out, class In, class WireIn, class WireOut, class Start>
auto OpenStream(Loop& loop, const CallsInGrpc& in_grpc, const std::string& token,
                std::shared_ptr<ClientStream<WireIn, WireOut>> call, const Start& start,
                Result<In> (*read)(const WireIn&)) {
  using Call = ClientStream<WireIn, WireOut>;
  const auto handlers = std::make_shared<StreamHandlers<In>>();
  ShowToken(call->context(), token);
  in_grpc.Add();
  start(&call->context(), call.get());
  call->Begin({[call, handlers, read, &loop](const WireIn& wire) {
                 if (Result<In> message = read(wire)) {
                   Deliver(loop, call, handlers, *std::move(message));
                 } else {
                   call->Cancel(StatusOf(message.error()));
                 }
               },
               [handlers, in_grpc, &loop] {
                 loop.Post([handlers] {
                   if (const auto ended = handlers->ended) {
                     ended();
                   }
                 });
                 in_grpc.Remove();
               }});
  return std::make_unique<StreamEnd<In, Out, Call>>(std::move(call), handlers);
}

}  // namespace ddprun
