#include "rendezvous/listener/bytes_received.h"

#include <linux/tcp.h>
#include <sys/socket.h>

#include <cstddef>

namespace ddprun {

std::uint64_t BytesReceived(int fd) {
  constexpr int kTcp = 6;  // IPPROTO_TCP, of the other header.
  tcp_info info{};
  socklen_t size = sizeof info;
  const bool known = ::getsockopt(fd, kTcp, TCP_INFO, &info, &size) == 0 &&
                     size >= offsetof(tcp_info, tcpi_bytes_received) + sizeof(std::uint64_t);
  return known ? info.tcpi_bytes_received : 0;
}

}  // namespace ddprun
