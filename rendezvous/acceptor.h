// Accepts the connections of the one port and hands each to whom its first bytes name.
//
// Looks at the bytes without taking them, so the receiver finds its protocol whole. Answers HTTP
// itself; what nobody understands, or stays silent, is closed. Never reads more than it bounds,
// never waits for anybody longer than its patience, never holds more than max_undecided.
//
//   accepted --HTTP/2 or TLS--> handlers.grpc
//            --VALIDATE-------> handlers.store
//            --request line---> a short reply, closed
//            --anything else, silence, too many--> closed
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "common/files.h"
#include "common/loop.h"
#include "common/time.h"

namespace ddprun {

struct AcceptorOptions {
  Duration patience{10'000};         // For the bytes that decide, or a whole HTTP request.
  std::size_t max_undecided = 1024;  // Beyond it the oldest undecided connection is closed.
};

// Each gets a socket that is connected, not blocking and close-on-exec. An unset one closes it.
struct AcceptorHandlers {
  std::function<void(UniqueFd)> grpc;
  std::function<void(UniqueFd)> store;
};

class Acceptor {
 public:
  Acceptor(Loop& loop, AcceptorOptions options, AcceptorHandlers handlers);
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
