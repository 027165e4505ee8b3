#include "agent/host/interfaces.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <memory>

#include "common/endpoint.h"
#include "common/route.h"
#include "rendezvous/messages/messages.h"

namespace ddprun {
namespace {

// Empty for what is no IP address.
std::string NumericOf(const sockaddr* address) {
  if (address == nullptr || (address->sa_family != AF_INET && address->sa_family != AF_INET6)) {
    return "";
  }
  const socklen_t length =
      address->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  char text[NI_MAXHOST] = "";
  return ::getnameinfo(address, length, text, sizeof text, nullptr, 0, NI_NUMERICHOST) == 0 ? text
                                                                                            : "";
}

}  // namespace

std::vector<Interface> ListInterfaces() {
  std::vector<Interface> interfaces;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) {
    return interfaces;
  }
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> release(list, ::freeifaddrs);
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    auto known = std::find_if(interfaces.begin(), interfaces.end(),
                              [&](const Interface& one) { return one.name == entry->ifa_name; });
    if (known == interfaces.end()) {
      interfaces.push_back({.name = entry->ifa_name, .up = (entry->ifa_flags & IFF_UP) != 0});
      known = std::prev(interfaces.end());
    }
    if (const std::string address = NumericOf(entry->ifa_addr); !address.empty()) {
      known->addresses.push_back(address);
    }
  }
  return interfaces;
}

std::string OwnAddresses() {
  std::string text;
  std::size_t count = 0;
  for (const Interface& one : ListInterfaces()) {
    for (const std::string& address : one.addresses) {
      const bool counts = one.up && !IsLoopback(address) && address.find('%') == address.npos;
      if (counts && ++count > kMaxAddresses) {
        return "";
      }
      text += counts ? (text.empty() ? "" : ",") + address : "";
    }
  }
  return text;
}

std::string InterfaceWith(const std::string& address) {
  for (const Interface& one : ListInterfaces()) {
    if (std::find(one.addresses.begin(), one.addresses.end(), address) != one.addresses.end()) {
      return one.name;
    }
  }
  return "";
}

std::optional<std::string> InterfaceOfHost(const std::string& host) {
  const Result<std::vector<std::string>> found = Resolve(host);
  if (!found) {
    return std::nullopt;
  }
  const std::vector<Interface> interfaces = ListInterfaces();
  for (const std::string& address : *found) {
    for (const Interface& one : interfaces) {
      const bool loopback = one.name == "lo" && address.starts_with("127.");
      if (loopback ||
          std::find(one.addresses.begin(), one.addresses.end(), address) != one.addresses.end()) {
        return one.name;
      }
    }
  }
  return std::nullopt;
}

}  // namespace ddprun
