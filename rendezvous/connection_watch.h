// Says when the other end of a connection has closed it, whoever reads from it here.
//
// Keeps a duplicate of each descriptor it watches and lets it go when either side closes the
// connection; the reader must shut the connection down when it closes it, as gRPC does. Takes no
// byte and is not woken by any. One that cannot be watched (no descriptor left) is passed over.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "common/loop.h"

namespace ddprun {

class ConnectionWatch {
 public:
  // `closed` is called on the loop with what Watch returned, and never once this is destroyed.
  ConnectionWatch(Loop& loop, std::function<void(const std::string& peer)> closed);
  ~ConnectionWatch();
  ConnectionWatch(const ConnectionWatch&) = delete;
  ConnectionWatch& operator=(const ConnectionWatch&) = delete;

  // "1.2.3.4:5" or "[::1]:5", the other end. Empty: it is not watched.
  std::string Watch(int fd);

  // Ends the connection for both sides; `closed` follows. Nothing happens to one that is not
  // watched.
  void End(const std::string& peer);

 private:
  class State;
  std::shared_ptr<State> state_;  // Shared with the wait in flight.
};

}  // namespace ddprun
