// For tests: plain sockets on loopback.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "common/check.h"
#include "common/files.h"

namespace ddprun {

inline sockaddr_in AddressOf(const char* host, std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  CHECK(::inet_pton(AF_INET, host, &address.sin_addr) == 1);
  return address;
}

inline std::uint16_t PortOf(const UniqueFd& socket) {
  sockaddr_in address{};
  socklen_t size = sizeof address;
  CHECK(::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0);
  return ntohs(address.sin_port);
}

// Any free port. `flags`: SOCK_NONBLOCK, or none.
inline UniqueFd ListenOnLoopback(int flags = 0) {
  UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | flags, 0));
  const sockaddr_in any = AddressOf("127.0.0.1", 0);
  CHECK(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&any), sizeof any) == 0 &&
        ::listen(socket.get(), 16) == 0);
  return socket;
}

// Blocks until the kernel of the other side has taken it.
inline UniqueFd ConnectToLoopback(std::uint16_t port, const char* from = "127.0.0.1") {
  UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_in own = AddressOf(from, 0);
  const sockaddr_in there = AddressOf("127.0.0.1", port);
  CHECK(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&own), sizeof own) == 0 &&
        ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&there), sizeof there) == 0);
  return socket;
}

}  // namespace ddprun
