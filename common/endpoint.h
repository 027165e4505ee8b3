// host:port as people write it, IPv6 in brackets. Parsing only: no name is looked up here.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/result.h"

struct sockaddr;

namespace ddprun {

struct Endpoint {
  std::string host;        // Name or address, without brackets. Empty: none.
  std::uint16_t port = 0;  // 0: none, or "any free one" where something listens.
  auto operator<=>(const Endpoint&) const = default;
};

// "host:port", "[v6]:port"; "host" alone with a default_port. Port 0 is taken, odd bytes are not.
Result<Endpoint> ParseEndpoint(std::string_view text, std::optional<std::uint16_t> default_port);

std::string ToString(const Endpoint& endpoint);

// "0.0.0.0", "::", "*", or nothing: every address of the machine, however it is spelled ("0").
bool IsWildcard(const std::string& host);
bool IsWildcard(const sockaddr& address);  // IPv4 or IPv6.
// A name or number that only this machine reaches. A name that may mean more is not.
bool IsLoopback(const std::string& host);

// This machine's name as the kernel has it; "localhost" where it has none.
std::string HostName();

}  // namespace ddprun
