// Answers GET and HEAD over HTTP on a thread of its own, with what somebody else knows: it asks for
// an answer at most once at a time and ten times a second, and everybody who waits gets that one.
//
// Never writes anything, never reads a body, never waits for a reader for longer than kPatience.
// Strangers may connect: kMostConnections, of whom the one idle for longest makes room.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "common/endpoint.h"
#include "common/result.h"
#include "common/time.h"
#include "rendezvous/door/listen_socket.h"

namespace ddprun {

struct HttpAnswer {
  unsigned status = 200;
  std::string body;
  std::string type = "text/plain; charset=utf-8";
};

class HttpListener {
 public:
  static constexpr std::size_t kMostConnections = 32;
  static constexpr std::size_t kMostHead = 8 * 1024;
  static constexpr Duration kPatience{5'000};  // For a request, and for its reader.
  static constexpr Duration kFresh{100};       // An answer younger than that is given again.
  static constexpr Duration kPatienceWithLoop{1'000};  // Then the loop stands still.

  // Makes the body for a path; on the listener's thread, so it owns all that it looks at.
  using Answer = std::function<HttpAnswer(std::string_view path)>;
  // Called on the listener's thread; the answer may come from any, once, or never.
  using Ask = std::function<void(std::function<void(Answer)>)>;

  // `late`: instead of an answer that did not come in time.
  static Result<std::unique_ptr<HttpListener>> Open(ListenSocket socket, Ask ask, Answer late);
  // Waits for its thread, which never waits for anybody.
  ~HttpListener();
  HttpListener(const HttpListener&) = delete;
  HttpListener& operator=(const HttpListener&) = delete;

  const Endpoint& endpoint() const { return endpoint_; }

 private:
  class State;
  HttpListener(Endpoint endpoint, std::shared_ptr<State> state)
      : endpoint_(std::move(endpoint)), state_(std::move(state)) {}

  const Endpoint endpoint_;
  const std::shared_ptr<State> state_;
};

}  // namespace ddprun
