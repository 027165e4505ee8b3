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

struct Elsewhere {};  // Another machine, or another network namespace of this one.
struct Here {
  uid_t user = 0;
};
struct Closed {};  // Was here.
struct Untold {};  // The kernel does not answer such questions, as in some sandboxes.
using OtherEnd = std::variant<Elsewhere, Here, Closed, Untold>;

// `own`: this process's end.
OtherEnd FindOtherEnd(const boost::asio::ip::tcp::endpoint& peer,
                      const boost::asio::ip::tcp::endpoint& own);

}  // namespace ddprun
