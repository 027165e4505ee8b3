// Ranks on a command line.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/result.h"
#include "rendezvous/messages/operator_request.h"

namespace ddprun {

// "3,7,10-12".
Result<std::vector<RankSpan>> ParseRankSpans(const std::string& flag, const std::string& text);

}  // namespace ddprun
