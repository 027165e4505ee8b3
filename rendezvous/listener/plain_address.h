// IPv4 in IPv6's clothes (::ffff:10.0.0.1), as a socket of both kinds tells it, is IPv4.
#pragma once

#include <sys/socket.h>

#include <boost/asio/ip/tcp.hpp>

#include "common/endpoint.h"

namespace ddprun {

inline boost::asio::ip::address Plain(const boost::asio::ip::address& address) {
  namespace ip = boost::asio::ip;
  const bool dressed = address.is_v6() && address.to_v6().is_v4_mapped();
  return dressed ? ip::address(ip::make_address_v4(ip::v4_mapped, address.to_v6())) : address;
}

// The other end of a socket, without the link by which it is reached. No host: it has gone, or has
// no port.
inline Endpoint PeerOf(int fd) {
  namespace ip = boost::asio::ip;
  ip::tcp::endpoint peer;
  auto size = static_cast<socklen_t>(peer.capacity());
  if (::getpeername(fd, peer.data(), &size) != 0 ||
      (peer.data()->sa_family != AF_INET && peer.data()->sa_family != AF_INET6)) {
    return {};
  }
  const ip::address plain = Plain(peer.address());
  const ip::address address = plain.is_v6() ? ip::address_v6(plain.to_v6().to_bytes()) : plain;
  return {address.to_string(), peer.port()};
}

}  // namespace ddprun
