#include "rendezvous/store/store_listener.h"

#include <sys/socket.h>

#include <boost/asio/ip/tcp.hpp>
#include <cerrno>

#include "common/endpoint.h"

namespace ddprun {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

Error ListenError(const tcp::endpoint& endpoint, int error_number) {
  return SystemError("listen for store clients on",
                     ToString(Endpoint{endpoint.address().to_string(), endpoint.port()}),
                     error_number);
}

Result<StoreListener> Open(const tcp::endpoint& endpoint) {
  const bool v6 = endpoint.address().is_v6();
  UniqueFd fd(::socket(v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) {
    return ListenError(endpoint, errno);
  }
  const int on = 1;
  const int off = 0;
  tcp::endpoint bound;
  socklen_t size = static_cast<socklen_t>(bound.capacity());
  // REUSEADDR: a literal port must be usable again while old connections linger.
  if (::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
      (v6 && endpoint.address().is_unspecified() &&
       ::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off)) != 0) ||
      ::bind(fd.get(), endpoint.data(), static_cast<socklen_t>(endpoint.size())) != 0 ||
      ::listen(fd.get(), SOMAXCONN) != 0 || ::getsockname(fd.get(), bound.data(), &size) != 0) {
    return ListenError(endpoint, errno);
  }
  return StoreListener{std::move(fd), bound.port()};
}

}  // namespace

Result<StoreListener> ListenForStore(const std::string& host, std::uint16_t port) {
  if (host.empty()) {
    Result<StoreListener> both = Open({tcp::v6(), port});
    // A machine without IPv6, or the port is taken there as well.
    return both ? std::move(both) : Open({tcp::v4(), port});
  }
  boost::system::error_code error;
  const asio::ip::address address = asio::ip::make_address(host, error);
  if (error) {
    return Invalid("the store listens on an IP address, not on a name", host);
  }
  return Open({address, port});
}

}  // namespace ddprun
