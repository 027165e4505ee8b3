// The clients from which the workers' store takes connections (--store-allow).
//
// The store's protocol has no secret in it. On this machine the kernel knows the user of a client:
// of its sockets only this user's, and root's, are let in, whatever address they use. Of others
// only the address is known: those of the world's nodes are let in, and those of --store-allow;
// where neither is known all are. Where the kernel does not tell, addresses decide about this
// machine's clients too, and the store's own is let in.
#pragma once

#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/network_v4.hpp>
#include <boost/asio/ip/network_v6.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/result.h"
#include "rendezvous/store/socket_peer.h"

namespace ddprun {

class AllowList {
 public:
  // "10.0.0.0/8,192.168.1.7,fd00::/8": networks, and addresses alone; "any": all clients, other
  // users of this machine too. kInvalid: anything else, with the part that is wrong.
  static Result<AllowList> Parse(const std::string& text);

  // Beside what was said, in words such as Parse takes, but each a single address and none of them
  // wrong: those of a world's nodes. An empty one changes nothing.
  void AllowAlso(const std::string& addresses);

  // Why this client is rejected; nothing: it may come in. `self`: the store's owner.
  std::optional<std::string> WhyNot(const boost::asio::ip::address& peer,
                                    const boost::asio::ip::address& own, const SocketPeer& end,
                                    uid_t self) const;

  // By address alone. `own`: the address that the connection came in at. IPv4 in IPv6's clothes
  // counts as IPv4.
  bool Allows(boost::asio::ip::address peer, boost::asio::ip::address own) const;

 private:
  bool any_ = false;
  std::vector<boost::asio::ip::network_v4> v4_;
  std::vector<boost::asio::ip::network_v6> v6_;
  std::set<boost::asio::ip::address> nodes_;
};

}  // namespace ddprun
