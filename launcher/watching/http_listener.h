// Answers HTTP on a thread of its own, with data of another one: it asks for an answer at most once
// at a time and ten times a second, and all requests that wait, and all streams, get that one.
//
// Never waits for a reader for longer than HttpSession::kPatience. Any peer may connect:
// kMostConnections, of whom the one idle for longest makes room.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "common/endpoint.h"
#include "common/files.h"
#include "common/result.h"
#include "common/time.h"
#include "launcher/watching/http_message.h"
#include "rendezvous/listener/listen_socket.h"

namespace ddprun {

class HttpListener {
 public:
  static constexpr std::size_t kMostConnections = 32;
  static constexpr std::size_t kMostStreams = 16;
  static constexpr Duration kFresh{100};  // An answer younger than that is given again.
  static constexpr Duration kPatienceWithLoop{1'000};  // Then the loop stands still.
  static constexpr Duration kStreamPeriod{250};        // Streams look for news so often.

  using Answer = std::shared_ptr<HttpAnswers>;
  // Called on the listener's thread; the answer may come from any, once, or never, and belongs to
  // the listener's thread from then on.
  using Ask = std::function<void(std::function<void(Answer)>)>;

  // `late`: instead of an answer that did not come in time. No thread and no socket yet.
  HttpListener(Ask ask, Answer late);
  // Waits for its thread, which never waits for a peer.
  ~HttpListener();
  HttpListener(const HttpListener&) = delete;
  HttpListener& operator=(const HttpListener&) = delete;

  Result<void> Listen(ListenSocket socket);
  // A connection that came elsewhere, and what was read of it. Closed where no thread can be had.
  void Adopt(UniqueFd socket, std::string begun);

  // Where it listens, if it does.
  const Endpoint& endpoint() const { return endpoint_; }

 private:
  class State;
  Endpoint endpoint_;
  const std::shared_ptr<State> state_;
};

}  // namespace ddprun
