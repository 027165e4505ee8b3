// Reports when the other end of a connection has closed it, while other code reads from it.
//
// Keeps a duplicate of each descriptor that it watches, and closes it when either side closes the
// connection; the reader must shut the connection down when it closes it, as gRPC does. Reads no
// byte, and is woken by none.
//
// Before its first call is accepted (MarkAuthenticated), a connection may receive
// kMaxUnauthenticatedBytes; beyond that it is ended within milliseconds. A reader is not trusted
// with bytes of an unknown sender (Debian's gRPC copies a header that never ends with each of its
// frames: CVE-2023-33953). If too many connections are not accepted, one is ended for the next, or
// the next is not watched (unauthenticated.h). One without an accepted call ends after a while.
#pragma once

#include <boost/asio/posix/stream_descriptor.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "common/asio_loop.h"
#include "common/files.h"
#include "common/lifetime.h"
#include "common/time.h"
#include "rendezvous/listener/unauthenticated.h"

namespace ddprun {

// How many bytes a connection may receive before its first call is accepted: a large first message
// may fill HTTP/2's first window (64 KiB) before a busy server looks at its token, after the
// handshake and the headers. A stream's message has no more before that.
inline constexpr std::uint64_t kMaxUnauthenticatedBytes = 96 * 1024;

class ConnectionWatch {
 public:
  using Told = std::function<void(const std::string& peer)>;
  using Ended = std::function<void(const std::string& peer, const std::string& why)>;

  // Both are called on the loop with what Watch returned, and never once this is destroyed; neither
  // may destroy it. `ended`: a connection was ended before it was accepted, because it sent too
  // much, too many others wait, or `patience` was over; `closed` follows. `most`: how many may be
  // without an accepted call.
  ConnectionWatch(AsioLoop& loop, Told closed, Ended ended, std::size_t most, Duration patience);
  ConnectionWatch(const ConnectionWatch&) = delete;
  ConnectionWatch& operator=(const ConnectionWatch&) = delete;

  // Returns the other end: "1.2.3.4:5" or "[::1]:5". Empty: it cannot be watched, since it has
  // gone, or nearly all descriptors are in use, or no other connection can be ended for it. The
  // caller must then close it.
  std::string Watch(int fd);

  // A call was accepted. Does nothing for a connection that is not watched.
  void MarkAuthenticated(const std::string& peer);

 private:
  using Epoll = boost::asio::posix::stream_descriptor;
  using Number = UnauthenticatedConnections::Number;
  struct Watched {
    UniqueFd copy;  // The duplicate.
    std::string peer;
  };
  bool Begin();
  bool IsRoomFor(const std::string& peer);
  void EndUnauthenticated(Number number, const std::string& why);
  void Wait();
  void OnReady();
  void OnEnd(Number number);
  void LookAgain();
  void Look();

  AsioLoop& loop_;
  Told closed_;
  Ended ended_;
  const std::size_t most_;
  const Duration patience_;
  // One epoll descriptor for all of them. It reports only ends; bytes do not wake it.
  Epoll epoll_;
  std::map<Number, Watched> watched_;
  std::map<std::string, Number> number_of_;
  Number next_ = 0;
  UnauthenticatedConnections unauthenticated_;  // Connections without an accepted call.
  Number looked_at_ = 0;                        // The last of them that was looked at.
  LoopTimer look_;
  const Lifetime life_;
};

}  // namespace ddprun
