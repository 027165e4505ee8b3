#include "common/endpoint.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>

#include "common/text.h"

namespace ddprun {
namespace {

constexpr std::size_t kMostHost =
    255;  // RFC 1035 section 2.3.4; a numeric one with its zone is shorter.

Result<std::uint16_t> ParsePort(std::string_view text, std::string_view whole) {
  const auto port = ParseNumber<std::uint16_t>(text);
  if (!port) {
    return Invalid("the port of an endpoint must be a number from 0 to 65535", whole);
  }
  return *port;
}

// An IPv4 address as IPv6 has it.
in6_addr Mapped(const sockaddr& address) {
  if (address.sa_family == AF_INET6) {
    return reinterpret_cast<const sockaddr_in6&>(address).sin6_addr;
  }
  in6_addr mapped{};
  mapped.s6_addr[10] = mapped.s6_addr[11] = 0xff;
  const auto& v4 = reinterpret_cast<const sockaddr_in&>(address).sin_addr;
  std::copy_n(reinterpret_cast<const unsigned char*>(&v4), sizeof v4, &mapped.s6_addr[12]);
  return mapped;
}

// In any of the spellings that binding and connecting take ("0", "0x7f.1", "::ffff:0.0.0.0"); looks
// nothing up.
std::optional<in6_addr> NumericAddress(const std::string& host) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST;
  addrinfo* found = nullptr;
  if (host.empty() || ::getaddrinfo(host.c_str(), nullptr, &hints, &found) != 0) {
    return std::nullopt;
  }
  const in6_addr address = Mapped(*found->ai_addr);
  ::freeaddrinfo(found);
  return address;
}

bool IsUnspecified(const in6_addr& address) {
  const bool mapped =
      IN6_IS_ADDR_V4MAPPED(&address) && std::all_of(&address.s6_addr[12], &address.s6_addr[16],
                                                    [](unsigned char byte) { return byte == 0; });
  return mapped || IN6_IS_ADDR_UNSPECIFIED(&address);
}

}  // namespace

Result<Endpoint> ParseEndpoint(std::string_view text, std::optional<std::uint16_t> default_port) {
  text = Trimmed(text);
  std::string_view host = text;
  std::string_view port;
  bool has_port = false;
  if (!text.empty() && text.front() == '[') {
    const std::size_t close = text.find(']');
    if (close == std::string_view::npos) {
      return Invalid("an endpoint's '[' needs a ']'", text);
    }
    host = text.substr(1, close - 1);
    const std::string_view rest = text.substr(close + 1);
    if (!rest.empty() && rest.front() != ':') {
      return Invalid("an endpoint must be host:port", text);
    }
    has_port = !rest.empty();
    port = has_port ? rest.substr(1) : rest;
  } else if (const std::size_t colon = text.rfind(':'); colon != std::string_view::npos) {
    if (text.find(':') != colon) {
      return Invalid("an IPv6 address in an endpoint needs brackets, [::1]:29400", text);
    }
    host = text.substr(0, colon);
    port = text.substr(colon + 1);
    has_port = true;
  }
  if (host.empty() || (!has_port && !default_port)) {
    return Invalid("an endpoint must be host:port", text);
  }
  if (host.size() > kMostHost) {
    return Invalid("the host of an endpoint has at most 255 characters", text.substr(0, 64));
  }
  // Else what ToString makes of it could mean another endpoint, or none. ':' and '%': of IPv6 and
  // its zones.
  if (!host.empty() && !HasOnly(host, "._-:%")) {
    return Invalid("the host of an endpoint has letters, digits, dots, hyphens and underscores",
                   text);
  }
  if (!has_port) {
    return Endpoint{std::string(host), *default_port};
  }
  ASSIGN_OR_RETURN(const std::uint16_t number, ParsePort(port, text));
  return Endpoint{std::string(host), number};
}

std::string ToString(const Endpoint& endpoint) {
  const bool bracket = endpoint.host.find(':') != std::string::npos;
  return (bracket ? "[" + endpoint.host + "]" : endpoint.host) + ":" +
         std::to_string(endpoint.port);
}

bool IsWildcard(const std::string& host) {
  const std::optional<in6_addr> address = NumericAddress(host);
  return host.empty() || host == "*" || (address && IsUnspecified(*address));
}

bool IsWildcard(const sockaddr& address) {
  return IsUnspecified(Mapped(address));
}

bool IsLoopback(const std::string& host) {
  const std::optional<in6_addr> address = NumericAddress(host);
  return host == "localhost" ||
         (address && (IN6_IS_ADDR_LOOPBACK(&*address) ||
                      (IN6_IS_ADDR_V4MAPPED(&*address) && address->s6_addr[12] == 127)));
}

std::string HostName() {
  char name[256] = "";
  return ::gethostname(name, sizeof name - 1) == 0 && name[0] != '\0' ? name : "localhost";
}

}  // namespace ddprun
