// For tests: one end of a stream, which keeps what is sent to it and says what the test says.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "common/check.h"
#include "rendezvous/transport.h"

namespace ddprun {

template <class In, class Out>
struct StreamLog {
  std::vector<Out> sent;
  std::optional<Error> refused;
  bool open = true;  // The end under test has not been destroyed.
  std::function<void(const In&)> heard;
  std::function<void()> ended;

  // As the peer. A copy, since it may destroy the stream.
  void Say(const In& message) {
    if (const auto hears = heard) {
      hears(message);
    }
  }
  void Break() {
    if (const auto ends = ended) {
      ends();
    }
  }
};

template <class In, class Out>
class LoggedStream final : public MessageStream<In, Out> {
 public:
  using Log = StreamLog<In, Out>;
  explicit LoggedStream(std::shared_ptr<Log> log) : log_(std::move(log)) {}
  ~LoggedStream() override {
    log_->open = false;
    log_->heard = nullptr;
    log_->ended = nullptr;
  }
  void Listen(std::function<void(const In&)> heard, std::function<void()> ended) override {
    CHECK(!log_->heard);
    log_->heard = std::move(heard);
    log_->ended = std::move(ended);
  }
  void Send(const Out& message) override { log_->sent.push_back(message); }
  void End(const Error& why) override { log_->refused = why; }

 private:
  const std::shared_ptr<Log> log_;
};

using NodeLog = StreamLog<AnswerPiece, NodeCommand>;
using CommandLog = StreamLog<NodeCommand, AnswerPiece>;
using OperatorLog = StreamLog<NodeId, AskReply>;

// A stream, and the log of it.
template <class In, class Out>
std::unique_ptr<MessageStream<In, Out>> StreamTo(const std::shared_ptr<StreamLog<In, Out>>& log) {
  return std::make_unique<LoggedStream<In, Out>>(log);
}

}  // namespace ddprun
