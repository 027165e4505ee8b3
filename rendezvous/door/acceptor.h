// Accepts the connections of the one port and hands each to whom its first bytes name.
//
// Looks at the bytes without taking them, so the receiver finds its protocol whole. Answers HTTP
// itself; what nobody understands, or stays silent, is closed. Never reads more than it bounds,
// never waits for anybody longer than its patience, never holds more than max_undecided, nor more
// than max_undecided_of_one of one address, so that who floods pushes out its own; where
// descriptors are few, no more than an eighth of them. What is closed for any of these is
// counted and logged, a few lines in ten seconds at most.
//
//   accepted --HTTP/2--------> handlers.grpc; unset: the call is refused (options.refusal), closed
//            --TLS-----------> handlers.tls; unset: told so in TLS's own words, closed
//            --VALIDATE------> handlers.store
//            --request line--> /healthz: a short reply, closed; else handlers.http, with what was
//                              read; unset: a short reply, closed
//            --anything else, silence, too many--> closed
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "common/asio_loop.h"
#include "common/files.h"
#include "common/time.h"
#include "rendezvous/door/http.h"

namespace ddprun {

struct AcceptorOptions {
  Duration patience{10'000};               // For the bytes that decide, or a whole HTTP request.
  std::size_t max_undecided = 1024;        // Beyond it the oldest undecided connection is closed,
  std::size_t max_undecided_of_one = 512;  // or the oldest of that address.
  Duration call_patience{30'000};          // The server's, for the first call of a gRPC connection.
  Health health;                           // For who asks by HTTP.
  std::string refusal;                     // Why calls in the clear are not heard.
};

// Each gets a socket that is connected, not blocking and close-on-exec. An unset one closes it.
struct AcceptorHandlers {
  std::function<void(UniqueFd)> grpc;
  std::function<void(const std::string& address)> refused;  // Where grpc is unset.
  std::function<void(UniqueFd)> tls;
  std::function<void(UniqueFd)> store;
  std::function<void(UniqueFd, std::string begun)> http;
};

class Acceptor {
 public:
  Acceptor(AsioLoop& loop, AcceptorOptions options, AcceptorHandlers handlers);
  ~Acceptor();  // Closes the listening socket and what is undecided.
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

  // `listener` listens and does not block.
  void Start(UniqueFd listener);

 private:
  class State;
  std::shared_ptr<State> state_;  // Shared with waits in flight, which find it closed.
};

}  // namespace ddprun
