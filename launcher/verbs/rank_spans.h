// Ranks on a command line, and in words.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/result.h"
#include "rendezvous/messages/errand.h"

namespace ddprun {

// "3,7,10-12".
Result<std::vector<RankSpan>> ParseRankSpans(const std::string& flag, const std::string& text);
// The same of ranks in order.
std::string RankSpansText(const std::vector<std::uint32_t>& ranks);

}  // namespace ddprun
