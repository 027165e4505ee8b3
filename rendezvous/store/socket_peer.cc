#include "rendezvous/store/socket_peer.h"

#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cstring>
#include <optional>

#include "common/files.h"
#include "rendezvous/listener/plain_address.h"

namespace ddprun {
namespace {

namespace ip = boost::asio::ip;
using ip::tcp;

struct Question {
  nlmsghdr header{};
  inet_diag_req_v2 request{};
};

void Put(const ip::address& address, __be32 (&words)[4]) {
  if (address.is_v4()) {
    const auto bytes = address.to_v4().to_bytes();
    std::memcpy(words, bytes.data(), bytes.size());
  } else {
    const auto bytes = address.to_v6().to_bytes();
    std::memcpy(words, bytes.data(), bytes.size());
  }
}

Question Ask(const tcp::endpoint& local, const tcp::endpoint& remote) {
  const ip::address from = Plain(local.address());  // As the kernel files it.
  Question question;
  question.header.nlmsg_len = sizeof question;
  question.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  question.header.nlmsg_flags = NLM_F_REQUEST;
  question.request.sdiag_family = from.is_v4() ? AF_INET : AF_INET6;
  question.request.sdiag_protocol = IPPROTO_TCP;
  question.request.idiag_states = ~0u;
  inet_diag_sockid& id = question.request.id;
  id.idiag_sport = htons(local.port());
  id.idiag_dport = htons(remote.port());
  Put(from, id.idiag_src);
  Put(Plain(remote.address()), id.idiag_dst);
  id.idiag_if = from.is_v6() ? static_cast<std::uint32_t>(from.to_v6().scope_id()) : 0;
  id.idiag_cookie[0] = id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
  return question;
}

// The socket that has these two ends.
std::optional<inet_diag_msg> Find(const tcp::endpoint& local, const tcp::endpoint& remote) {
  const UniqueFd fd(::socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
  const Question question = Ask(local, remote);
  if (!fd || ::send(fd.get(), &question, sizeof question, 0) != sizeof question) {
    return std::nullopt;
  }
  alignas(nlmsghdr) char bytes[8192];
  const ssize_t got = ::recv(fd.get(), bytes, sizeof bytes, MSG_DONTWAIT);
  nlmsghdr header{};
  inet_diag_msg found{};
  if (got < static_cast<ssize_t>(NLMSG_HDRLEN + sizeof found)) {
    return std::nullopt;
  }
  std::memcpy(&header, bytes, sizeof header);
  std::memcpy(&found, bytes + NLMSG_HDRLEN, sizeof found);
  // Where no connection has these ends the kernel shows the listener at the first.
  const bool connected = header.nlmsg_type == SOCK_DIAG_BY_FAMILY &&
                         found.id.idiag_dport == question.request.id.idiag_dport &&
                         found.id.idiag_sport == question.request.id.idiag_sport;
  return connected ? std::optional(found) : std::nullopt;
}

}  // namespace

SocketPeer FindSocketPeer(const tcp::endpoint& peer, const tcp::endpoint& own) {
  if (const auto socket = Find(peer, own)) {
    return socket->idiag_inode != 0 ? SocketPeer(LocalPeer{socket->idiag_uid}) : ClosedPeer{};
  }
  if (!Find(own, peer)) {
    return UnknownPeer{};
  }
  const bool here = peer.address().is_loopback() || peer.address() == own.address() ||
                    Plain(peer.address()).is_loopback();
  return here ? SocketPeer(ClosedPeer{}) : RemotePeer{};
}

}  // namespace ddprun
