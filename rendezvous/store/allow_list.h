// From which addresses the workers' store takes connections (--store-allow).
//
// The store's protocol has no secret in it, so its address is all that a client can be known by.
// Decides by the peer's address alone; this very address (the store's own node) is always let in,
// and an empty list lets everybody in.
#pragma once

#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/network_v4.hpp>
#include <boost/asio/ip/network_v6.hpp>
#include <string>
#include <vector>

#include "common/result.h"

namespace ddprun {

class AllowList {
 public:
  // "10.0.0.0/8,192.168.1.7,fd00::/8": networks, and addresses alone. Empty: everybody. kInvalid:
  // anything else, with the part that is wrong.
  static Result<AllowList> Parse(const std::string& text);

  // `own`: the address that the connection came in at. IPv4 in IPv6's clothes counts as IPv4.
  bool Allows(boost::asio::ip::address peer, boost::asio::ip::address own) const;

 private:
  std::vector<boost::asio::ip::network_v4> v4_;
  std::vector<boost::asio::ip::network_v6> v6_;
};

}  // namespace ddprun
