// Which terms and generations can be real: both are counted up from what others claim, so a claim
// far ahead would use them up for good.
//
// A term is made of the wall clock, and generations are formed more slowly than one in a
// millisecond; so both lie below it, and a number that was made up today is no limit tomorrow.
// Never orders anything by a clock: only rejects the impossible.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>

#include "common/endpoint.h"
#include "common/ids.h"
#include "common/time.h"
#include "rendezvous/messages/host_fact.h"

namespace ddprun {

struct TermBounds {
  Term term;  // The latest.
  Generation generation;
};

// The numbers that a node's report may have, by the clock of the server that would take a later
// term.
inline constexpr Duration kNodesAhead{24 * 3'600'000};
// The numbers in servers' own words: replies and claims. A day more, so that what a server has
// adopted is believed where the clock is behind its own.
inline constexpr Duration kServersAhead = 2 * kNodesAhead;

TermBounds TermBoundsAt(std::int64_t unix_ms, Duration ahead);

// Why a term beyond them is refused, for people: whose clock is wrong, and by how much.
std::string WhyNotYet(Term term, std::int64_t unix_ms);
// How a server's clock stands to that of this host, for people; "": they agree, or it is not known.
std::string ClockAt(const Endpoint& endpoint, const std::optional<ClockOffset>& offset);

// The latest that this machine's clock has shown this process: a term within the bounds stays so
// where it is set back.
std::int64_t LatestUnixMilliseconds();
// `now` counts as shown.
std::int64_t Latest(std::int64_t now, std::atomic<std::int64_t>& latest);

}  // namespace ddprun
