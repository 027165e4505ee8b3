#include "common/route.h"

#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "common/files.h"

namespace ddprun {
namespace {

constexpr const char* kAnyPort = "9";  // Nothing is sent; "discard" by its name.

using Addresses = std::unique_ptr<addrinfo, void (*)(addrinfo*)>;

Result<Addresses> LookUp(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  const int failed = ::getaddrinfo(host.c_str(), kAnyPort, &hints, &found);
  if (failed != 0) {
    return Error{ErrorKind::kUnavailable,
                 "cannot look up the host '" + host + "': " + ::gai_strerror(failed)};
  }
  return Addresses(found, ::freeaddrinfo);
}

// Empty: it has none.
std::string Numeric(const sockaddr* address, socklen_t length) {
  char text[NI_MAXHOST] = "";
  return ::getnameinfo(address, length, text, sizeof text, nullptr, 0, NI_NUMERICHOST) == 0 ? text
                                                                                            : "";
}

}  // namespace

Result<std::vector<std::string>> Resolve(const std::string& host) {
  ASSIGN_OR_RETURN(const Addresses found, LookUp(host));
  std::vector<std::string> addresses;
  for (const addrinfo* entry = found.get(); entry != nullptr; entry = entry->ai_next) {
    const std::string text = Numeric(entry->ai_addr, entry->ai_addrlen);
    if (!text.empty() && std::find(addresses.begin(), addresses.end(), text) == addresses.end()) {
      addresses.push_back(text);
    }
  }
  return addresses;
}

// Connecting a datagram socket chooses the route.
Result<std::string> RouteTo(const std::string& host) {
  ASSIGN_OR_RETURN(const Addresses found, LookUp(host));
  int error_number = EADDRNOTAVAIL;
  for (const addrinfo* entry = found.get(); entry != nullptr; entry = entry->ai_next) {
    sockaddr_storage address{};
    socklen_t length = sizeof address;
    const UniqueFd probe(::socket(entry->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (probe && ::connect(probe.get(), entry->ai_addr, entry->ai_addrlen) == 0 &&
        ::getsockname(probe.get(), reinterpret_cast<sockaddr*>(&address), &length) == 0) {
      const std::string text = Numeric(reinterpret_cast<sockaddr*>(&address), length);
      if (!text.empty()) {
        return text;
      }
    }
    error_number = errno;
  }
  return SystemError("find a route from this machine to", host, error_number);
}

}  // namespace ddprun
