#include "rendezvous/listener/listen_socket.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <sstream>

#include "common/files.h"

namespace ddprun {
namespace {

namespace fs = std::filesystem;

constexpr int kBacklog = 4096;
constexpr const char* kListenState = "0A";  // TCP_LISTEN, as /proc/net/tcp writes it.

// Zero, or the errno of the step that failed.
int BindAndListen(const sockaddr_storage& address, UniqueFd& fd) {
  fd = UniqueFd(::socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) {
    return errno;
  }
  const int on = 1;
  const int off = 0;
  // A restarted server must not wait for its old connections' TIME_WAIT.
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (address.ss_family == AF_INET6) {
    ::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  }
  // The port may turn out to be in use at either step.
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(fd.get(), kBacklog) != 0) {
    return errno;
  }
  return 0;
}

Result<std::uint16_t> BoundPort(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    return SystemError("ask for the port of", "the listening socket", errno);
  }
  return ntohs(address.ss_family == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                   : reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

Error ListenError(const Endpoint& endpoint, int error_number) {
  const std::string where = ToString(endpoint);
  if (error_number == EADDRINUSE) {
    const std::string owner = OwnerOfPort(endpoint.port);
    return {ErrorKind::kUnavailable,
            "cannot listen on " + where + ": port " + std::to_string(endpoint.port) + " is in use" +
                (owner.empty() ? " by another process" : " by " + owner) + " [port-in-use]"};
  }
  if (error_number == EADDRNOTAVAIL) {
    return {ErrorKind::kNotFound, "cannot listen on " + where + ": '" + endpoint.host +
                                      "' is not an address of this machine"};
  }
  return SystemError("listen on", where, error_number);
}

bool HoldsOneOf(const fs::path& process, const std::set<std::string>& links) {
  for (const fs::path& fd : EntriesOf(process / "fd")) {
    std::error_code unreadable;
    if (links.contains(fs::read_symlink(fd, unreadable).string())) {
      return true;
    }
  }
  return false;
}

}  // namespace

Result<ListenPlace> LookUpToListen(const Endpoint& endpoint) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const std::string port = std::to_string(endpoint.port);
  if (endpoint.host.empty()) {
    return Invalid("an endpoint to listen on must name a host", ToString(endpoint));
  }
  if (const int code = ::getaddrinfo(endpoint.host.c_str(), port.c_str(), &hints, &found);
      code != 0) {
    return Error{ErrorKind::kNotFound, "cannot listen on " + ToString(endpoint) + ": looking up '" +
                                           endpoint.host + "' failed: " + ::gai_strerror(code)};
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> addresses(found, &::freeaddrinfo);
  ListenPlace place{endpoint, {}};
  for (const addrinfo* address = found; address != nullptr; address = address->ai_next) {
    if (IsWildcard(*address->ai_addr) && !IsWildcard(endpoint.host)) {
      return Error{ErrorKind::kInvalid,
                   "cannot listen on " + ToString(endpoint) + ": '" + endpoint.host +
                       "' resolves to every address of this machine (/etc/hosts). Use one address"};
    }
    std::memcpy(&place.addresses.emplace_back(), address->ai_addr, address->ai_addrlen);
  }
  return place;
}

Result<ListenSocket> ListenAt(const ListenPlace& place) {
  int error_number = EADDRNOTAVAIL;
  for (const sockaddr_storage& address : place.addresses) {
    UniqueFd fd;
    error_number = BindAndListen(address, fd);
    if (error_number == 0) {
      ASSIGN_OR_RETURN(const std::uint16_t bound, BoundPort(fd.get()));
      return ListenSocket{std::move(fd), {place.endpoint.host, bound}};
    }
    if (error_number == EADDRINUSE) {
      break;  // Not on to another address of the same name: a server is there already.
    }
  }
  return ListenError(place.endpoint, error_number);
}

Result<ListenSocket> ListenOn(const Endpoint& endpoint) {
  ASSIGN_OR_RETURN(const ListenPlace place, LookUpToListen(endpoint));
  return ListenAt(place);
}

std::set<std::string> ListenersIn(std::istream& table, std::uint16_t port) {
  std::set<std::string> inodes;
  std::string line;
  std::getline(table, line);  // The heading.
  while (std::getline(table, line)) {
    std::istringstream fields(line);
    std::string slot, local, remote, state, skip, inode;
    fields >> slot >> local >> remote >> state >> skip >> skip >> skip >> skip >> skip >> inode;
    unsigned local_port = 0;
    const std::size_t colon = local.rfind(':');
    if (!fields || colon == std::string::npos || state != kListenState) {
      continue;
    }
    std::from_chars(local.data() + colon + 1, local.data() + local.size(), local_port, 16);
    if (local_port == port) {
      inodes.insert("socket:[" + inode + "]");
    }
  }
  return inodes;
}

std::set<std::string> ListenersOn(std::uint16_t port) {
  std::ifstream old_table("/proc/net/tcp");
  std::ifstream table("/proc/net/tcp6");
  std::set<std::string> inodes = ListenersIn(old_table, port);
  inodes.merge(ListenersIn(table, port));
  return inodes;
}

std::string OwnerOfPort(std::uint16_t port) {
  const std::set<std::string> inodes = ListenersOn(port);
  if (inodes.empty()) {
    return "";
  }
  for (const fs::path& process : EntriesOf("/proc")) {
    const std::string pid = process.filename();
    if (pid.find_first_not_of("0123456789") == std::string::npos && HoldsOneOf(process, inodes)) {
      std::string name;
      std::getline(std::ifstream(process / "comm"), name);
      return "process " + pid + (name.empty() ? "" : " (" + name + ")");
    }
  }
  return "";
}

}  // namespace ddprun
