// From whom the workers' store takes connections (--store-allow).
//
// The store's protocol has no secret in it. On this machine the kernel knows whose a client is: of
// its sockets only this user's, and root's, are let in, whatever address they use. Of others the
// address is all that there is to know: an empty list lets every one in. Where the kernel does not
// tell, addresses decide about this machine's clients too, and the store's own is let in.
#pragma once

#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/network_v4.hpp>
#include <boost/asio/ip/network_v6.hpp>
#include <optional>
#include <string>
#include <vector>

#include "common/result.h"
#include "rendezvous/store/other_end.h"

namespace ddprun {

class AllowList {
 public:
  // "10.0.0.0/8,192.168.1.7,fd00::/8": networks, and addresses alone; "any": whoever comes, other
  // users of this machine too. kInvalid: anything else, with the part that is wrong.
  static Result<AllowList> Parse(const std::string& text);

  // Why this client is turned away; nothing: it may come in. `self`: whose the store is.
  std::optional<std::string> WhyNot(const boost::asio::ip::address& peer,
                                    const boost::asio::ip::address& own, const OtherEnd& end,
                                    uid_t self) const;

  // By address alone. `own`: the address that the connection came in at. IPv4 in IPv6's clothes
  // counts as IPv4.
  bool Allows(boost::asio::ip::address peer, boost::asio::ip::address own) const;

 private:
  bool any_ = false;
  std::vector<boost::asio::ip::network_v4> v4_;
  std::vector<boost::asio::ip::network_v6> v6_;
};

}  // namespace ddprun
