// IPv4 in IPv6's clothes (::ffff:10.0.0.1), as a socket of both kinds tells it, is IPv4.
#pragma once

#include <boost/asio/ip/address.hpp>

namespace ddprun {

inline boost::asio::ip::address Plain(const boost::asio::ip::address& address) {
  namespace ip = boost::asio::ip;
  const bool dressed = address.is_v6() && address.to_v6().is_v4_mapped();
  return dressed ? ip::address(ip::make_address_v4(ip::v4_mapped, address.to_v6())) : address;
}

}  // namespace ddprun
