// This machine's network interfaces and their addresses.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace ddprun {

struct Interface {
  std::string name;
  bool up = false;
  std::vector<std::string> addresses;  // Numeric, IPv4 and IPv6.
};

std::vector<Interface> ListInterfaces();

// Of those that are up, with commas; neither loopback nor IPv6's link-local ones. Empty: none, or
// more than a node may tell.
std::string OwnAddresses();

// The one that has this numeric address; "": none has.
std::string InterfaceWith(const std::string& address);

// The interface with an address of `host`, which is looked up; none: another machine's, or unknown.
std::optional<std::string> InterfaceOfHost(const std::string& host);

}  // namespace ddprun
