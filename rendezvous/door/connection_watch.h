// Says when the other end of a connection has closed it, whoever reads from it here.
//
// Keeps a duplicate of each descriptor it watches and lets it go when either side closes the
// connection; the reader must shut the connection down when it closes it, as gRPC does. Where more
// than half of all descriptors are in use, those that are let in go without: a reader that closes
// one before its end was heard of here hides that end for a second, or so many as there are
// thousands of them. Takes no byte, and is woken by none. Until a connection is let in it may
// receive so many bytes and is ended within milliseconds of more: what a reader does with them,
// before it can know who sends them, is not to be trusted (Debian's gRPC copies a header that never
// ends with each of its frames: CVE-2023-33953). Where too many are not let in, one makes room for
// the next, or that one is not watched (strangers.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "common/asio_loop.h"

namespace ddprun {

// Received before a connection is let in.
inline constexpr std::uint64_t kMaxBytesOfStrangers = 64 * 1024;

class ConnectionWatch {
 public:
  using Told = std::function<void(const std::string& peer)>;
  using Ended = std::function<void(const std::string& peer, const char* why)>;

  // Both are called on the loop with what Watch returned, and never once this is destroyed.
  // `ended`: it was not let in, and more came than may, or too many others; `closed` follows.
  // `most`: that are not let in.
  ConnectionWatch(AsioLoop& loop, Told closed, Ended ended, std::size_t most);
  ~ConnectionWatch();
  ConnectionWatch(const ConnectionWatch&) = delete;
  ConnectionWatch& operator=(const ConnectionWatch&) = delete;

  // "1.2.3.4:5" or "[::1]:5", the other end. Empty: it cannot be watched, since it has gone, or
  // nearly all descriptors are in use, or nobody makes room; the caller must not go on with it.
  std::string Watch(int fd);

  // Nothing happens to one that is not watched.
  void LetIn(const std::string& peer);

  // Ends the connection for both sides; `closed` follows. Nothing happens to one that is not
  // watched, or let in where descriptors are short.
  void End(const std::string& peer);

 private:
  class State;
  std::shared_ptr<State> state_;  // Shared with the wait in flight.
};

}  // namespace ddprun
