// The little HTTP that the rendezvous' port answers: GET /healthz, for probes, for people, and for
// nodes that ask for a sealed token.
//
// Pure but for what it is given. HTTP/1.0, one request per connection, no body is read.
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
// Instead of it, where only holders of the token may know.
inline constexpr std::string_view kHealthToken = "a token is needed";
// The line that answers "/healthz?sealed": the token, for those of one user to open.
inline constexpr std::string_view kHealthSealed = "sealed ";

struct Health {
  std::string run;           // To be shown; empty: it serves any.
  bool wants_token = false;  // The run's name is not shown then.
  std::string sealed;        // The token; empty: it is not given in this way.
  bool joinable = true;      // False: the port has only the store of workers.
};

// nullopt: the request's head is not complete yet.
std::optional<std::string> HttpReply(std::string_view request, const Health& health);

// Its first line is there, and is no question for HttpReply.
bool AsksSomethingElse(std::string_view request);

}  // namespace ddprun
