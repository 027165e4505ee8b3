// What counts of a dead worker's own word: it is a worker's, so within bounds. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/messages/messages.h"

namespace ddprun {

// How long before `now_unix_ms` the worker had failed by its error file's word. It does not count
// before the worker's generation began, or in the future; the time of `details` becomes what
// counts.
std::optional<Duration> TakeTime(FailureDetails& details, Duration since_began,
                                 std::int64_t now_unix_ms);

// The last of these lines that a report has room for.
std::string LastOf(const std::vector<std::string>& lines);

}  // namespace ddprun
