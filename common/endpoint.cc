#include "common/endpoint.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <charconv>

namespace ddprun {
namespace {

Result<std::uint16_t> ParsePort(std::string_view text, std::string_view whole) {
  unsigned value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value > 65535) {
    return Invalid("the port of an endpoint must be a number from 0 to 65535", whole);
  }
  return static_cast<std::uint16_t>(value);
}

// Else what ToString makes of it could mean another endpoint, or none.
bool IsOfHost(char c) {
  return c > ' ' && c <= '~' && c != '[' && c != ']';
}

}  // namespace

Result<Endpoint> ParseEndpoint(std::string_view text, std::optional<std::uint16_t> default_port) {
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
  if (!std::all_of(host.begin(), host.end(), IsOfHost)) {
    return Invalid("the host of an endpoint must be printable, without spaces and brackets", text);
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
  in_addr v4{};
  in6_addr v6{};
  if (host.empty() || host == "*") {
    return true;
  }
  return (::inet_pton(AF_INET, host.c_str(), &v4) == 1 && v4.s_addr == 0) ||
         (::inet_pton(AF_INET6, host.c_str(), &v6) == 1 && IN6_IS_ADDR_UNSPECIFIED(&v6));
}

bool IsLoopback(const std::string& host) {
  in_addr v4{};
  in6_addr v6{};
  return host == "localhost" ||
         (::inet_pton(AF_INET, host.c_str(), &v4) == 1 && ntohl(v4.s_addr) >> 24 == 127) ||
         (::inet_pton(AF_INET6, host.c_str(), &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6));
}

}  // namespace ddprun
