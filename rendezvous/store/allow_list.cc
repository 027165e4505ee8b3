#include "rendezvous/store/allow_list.h"

#include <algorithm>

#include "common/text.h"
#include "rendezvous/listener/plain_address.h"

namespace ddprun {
namespace {

namespace ip = boost::asio::ip;

constexpr std::size_t kMostNetworks = 256;

// Plain; nor does it count at which of this machine's links the other one is.
ip::address Undressed(const ip::address& address) {
  const ip::address plain = Plain(address);
  return plain.is_v6() ? ip::address_v6(plain.to_v6().to_bytes()) : plain;
}

}  // namespace

Result<AllowList> AllowList::Parse(const std::string& text) {
  AllowList list;
  if (text == "any") {
    list.any_ = true;
    return list;
  }
  for (const std::string& part : Split(text, ',')) {
    boost::system::error_code v4_error;
    boost::system::error_code v6_error;
    const bool bare = part.find('/') == std::string::npos;
    const ip::network_v4 v4 = ip::make_network_v4(bare ? part + "/32" : part, v4_error);
    const ip::network_v6 v6 = ip::make_network_v6(bare ? part + "/128" : part, v6_error);
    if (!v4_error) {
      list.v4_.push_back(v4.canonical());
    } else if (!v6_error) {
      list.v6_.push_back(v6.canonical());
    } else {
      return Invalid(
          "--store-allow takes addresses and networks such as 10.0.0.0/8, with commas, or any",
          part);
    }
    if (list.v4_.size() + list.v6_.size() > kMostNetworks) {
      return Invalid("--store-allow takes at most 256 networks", text.substr(0, 40) + "...");
    }
  }
  return list;
}

void AllowList::AllowAlso(const std::string& addresses) {
  for (const std::string& part : Split(addresses, ',')) {
    boost::system::error_code error;
    const ip::address address = ip::make_address(part, error);
    if (!error) {
      nodes_.insert(Undressed(address));
    }
  }
}

std::optional<std::string> AllowList::WhyNot(const ip::address& peer, const ip::address& own,
                                             const SocketPeer& end, uid_t self) const {
  if (any_) {
    return std::nullopt;
  }
  if (const LocalPeer* const here = std::get_if<LocalPeer>(&end)) {
    if (here->user == self || here->user == 0) {
      return std::nullopt;
    }
    return "it belongs to user " + std::to_string(here->user) +
           " of this machine, and this run to user " + std::to_string(self) +
           " (--store-allow=any admits all clients)";
  }
  if (std::holds_alternative<ClosedPeer>(end)) {
    return "its other end, on this machine, is closed already, so its owner is unknown";
  }
  if (Allows(peer, own)) {
    return std::nullopt;
  }
  return nodes_.empty()
             ? "--store-allow does not name its address [store-client-refused]"
             : "its address belongs to no node of this world, and --store-allow does not "
               "name it [store-client-refused]";
}

bool AllowList::Allows(ip::address peer, ip::address own) const {
  peer = Undressed(peer);
  own = Undressed(own);
  if ((v4_.empty() && v6_.empty() && nodes_.empty()) || peer == own || nodes_.contains(peer) ||
      (!nodes_.empty() && peer.is_loopback())) {
    return true;
  }
  if (peer.is_v4()) {
    return std::any_of(v4_.begin(), v4_.end(), [&](const ip::network_v4& network) {
      return ip::network_v4(peer.to_v4(), network.prefix_length()).network() == network.network();
    });
  }
  return std::any_of(v6_.begin(), v6_.end(), [&](const ip::network_v6& network) {
    return ip::network_v6(ip::address_v6(peer.to_v6().to_bytes()), network.prefix_length())
               .network() == network.network();
  });
}

}  // namespace ddprun
