#include "launcher/command_line/addresses.h"

#include <arpa/inet.h>

#include <algorithm>

#include "agent/host/interfaces.h"
#include "common/route.h"

namespace ddprun {
namespace {

bool IsNumeric(const std::string& host) {
  in_addr v4{};
  in6_addr v6{};
  return ::inet_pton(AF_INET, host.c_str(), &v4) == 1 ||
         ::inet_pton(AF_INET6, host.substr(0, host.find('%')).c_str(), &v6) == 1;
}

// The first address that other machines can use: IPv4 before IPv6, link-local ones never.
std::string Usable(const Interface& interface) {
  const auto find = [&](bool v6) -> std::string {
    for (const std::string& address : interface.addresses) {
      const bool is_v6 = address.find(':') != std::string::npos;
      if (is_v6 == v6 && !IsLoopback(address) && !address.starts_with("fe80")) {
        return address;
      }
    }
    return "";
  };
  const std::string v4 = find(false);
  return v4.empty() ? find(true) : v4;
}

Result<std::string> AddressOf(const std::string& name) {
  std::string known;
  for (const Interface& interface : ListInterfaces()) {
    if (interface.name == name) {
      const std::string usable = Usable(interface);
      if (!usable.empty() || !interface.addresses.empty()) {
        return usable.empty() ? interface.addresses.front() : usable;  // "lo", who asks for it.
      }
      return Error{ErrorKind::kInvalid,
                   "--interface=" + name + ": it has no address on this machine"};
    }
    known += (known.empty() ? "" : ", ") + interface.name;
  }
  return Error{ErrorKind::kInvalid, "--interface=" + name +
                                        ": this machine has no such interface. It has " + known +
                                        " [no-interface]"};
}

// A name that leads to this machine's loopback alone, though it is not meant to.
bool IsTrapped(const std::string& host) {
  if (IsNumeric(host) || IsLoopback(host)) {
    return false;
  }
  const Result<std::vector<std::string>> addresses = Resolve(host);
  return addresses && std::all_of(addresses->begin(), addresses->end(), IsLoopback);
}

// This process runs on the first node of its scheduler's list.
bool IsOnFirstNode(const LaunchContext& context) {
  return context.index == 0u || context.on_first_node;
}

std::string AnyUsable() {
  for (const Interface& interface : ListInterfaces()) {
    if (const std::string usable = Usable(interface); interface.up && !usable.empty()) {
      return usable;
    }
  }
  return "";
}

}  // namespace

Result<std::string> FindLocalAddress(const LaunchConfig& config) {
  if (!config.local_address.empty()) {
    const Result<std::vector<std::string>> own = Resolve(config.local_address);
    if (!own || own->empty()) {
      return Error{ErrorKind::kInvalid,
                   (own ? "no address: '" + config.local_address + "'" : own.error().message) +
                       " (--local-addr)"};
    }
    return own->front();
  }
  if (!config.interface.empty()) {
    return AddressOf(config.interface);
  }
  if (config.standalone) {
    return std::string("127.0.0.1");
  }
  const std::string& host = config.endpoint.host;
  if (config.context.IsPlaced() && IsOnFirstNode(config.context) && IsTrapped(host)) {
    for (const std::string& other : config.context.hosts) {
      const Result<std::string> route = other == host ? std::string() : RouteTo(other);
      if (route && !route->empty() && !IsLoopback(*route)) {
        return *route;
      }
    }
    if (const std::string usable = AnyUsable(); !usable.empty()) {
      return usable;
    }
  }
  Result<std::string> address = RouteTo(host);
  if (!address) {
    return Error{
        address.error().kind,
        address.error().message +
            ". Check --rdzv-endpoint or --master-addr, or set this node's own address with "
            "--local-addr"};
  }
  return address;
}

Result<Endpoint> FindMeetingPoint(const LaunchConfig& config) {
  if (config.standalone || !config.context.IsPlaced() || !IsTrapped(config.endpoint.host)) {
    return config.endpoint;
  }
  const std::string what = "the first node's name '" + config.endpoint.host +
                           "' is a loopback address here (/etc/hosts?)";
  if (!IsOnFirstNode(config.context)) {
    return Error{ErrorKind::kInvalid,
                 what +
                     ", so this node cannot reach it. Let the name resolve to an address that the "
                     "other nodes reach, or set --rdzv-endpoint=ADDRESS:PORT [loopback-name]"};
  }
  ASSIGN_OR_RETURN(const std::string address, FindLocalAddress(config));
  if (IsLoopback(address)) {
    return Error{ErrorKind::kInvalid, what +
                                          ", and no other address of this machine is known. Set "
                                          "--interface or --local-addr [loopback-name]"};
  }
  return Endpoint{address, config.endpoint.port};
}

}  // namespace ddprun
