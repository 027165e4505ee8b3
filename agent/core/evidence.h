// How far the error file of a dead worker is believed: a worker wrote it, so only within bounds.
// Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/messages/messages.h"

namespace ddprun {

// How long before `now_unix_ms` the worker had failed by its error file's word. A time before the
// worker's generation began, or in the future, is not believed; the time of `details` becomes the
// one that is.
std::optional<Duration> TakeTime(FailureDetails& details, Duration since_began,
                                 std::int64_t now_unix_ms);

// The last of these lines that a report has room for.
std::string LastOf(const std::vector<std::string>& lines);

}  // namespace ddprun
