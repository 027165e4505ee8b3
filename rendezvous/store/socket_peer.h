// The process at the other end of a TCP connection, as far as this machine's kernel knows.
//
// Asks the kernel's table of sockets (NETLINK_SOCK_DIAG), which also tells who made a socket; the
// answer is there at once. Decides nothing. A socket that its process has closed has no owner: the
// kernel calls it root's.
#pragma once

#include <sys/types.h>

#include <boost/asio/ip/tcp.hpp>
#include <variant>

namespace ddprun {

struct RemotePeer {};  // Another machine, or another network namespace of this one.
struct LocalPeer {
  uid_t user = 0;
};
struct ClosedPeer {};   // Was here.
struct UnknownPeer {};  // The kernel does not answer such questions, as in some sandboxes.
using SocketPeer = std::variant<RemotePeer, LocalPeer, ClosedPeer, UnknownPeer>;

// `own`: this process's end.
SocketPeer FindSocketPeer(const boost::asio::ip::tcp::endpoint& peer,
                          const boost::asio::ip::tcp::endpoint& own);

}  // namespace ddprun
