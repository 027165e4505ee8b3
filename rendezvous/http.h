// The little HTTP that the rendezvous' port answers: GET /healthz, for probes and for people.
//
// Pure. HTTP/1.0, one request per connection, no body is read.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun {

inline constexpr std::size_t kMaxHttpRequest = 4096;
// How /healthz begins, and how one ddprun knows another.
inline constexpr std::string_view kHealthGreeting = "ddprun rendezvous ";

// The line of it that names the one run of a server that an agent carries.
inline constexpr std::string_view kHealthRun = "run ";

// nullopt: the request's head is not complete yet. `run`: to be told; empty: it serves any.
std::optional<std::string> HttpReply(std::string_view request, std::string_view run);

}  // namespace ddprun
