// Slurm's compressed lists: names ("n[001-003,010],login1") and counts per node ("2(x3),1").
//
// Pure, and bounded: a list of more than kMaxHosts names, or with a name longer than any host's, is
// refused before it is made. Names come in the order written, repeated ones included; numbers are
// padded to the width of their range's low bound; several brackets make a product, the last one
// fastest. Empty items are skipped; blanks part items as commas do. As `scontrol show hostnames` of
// Slurm 22.05, but that text after the last bracket ("n[1-2]-ib") is taken and an unclosed bracket
// refused.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.h"

namespace ddprun {

inline constexpr std::size_t kMaxHosts = 100'000;
inline constexpr std::size_t kMaxHostName = 255;

// kInvalid names the item that cannot be used. An empty list is empty.
Result<std::vector<std::string>> ExpandHostlist(std::string_view text);

// SLURM_STEP_TASKS_PER_NODE: one count for each node, in the order of the node list.
Result<std::vector<std::uint32_t>> ExpandCounts(std::string_view text);

}  // namespace ddprun
