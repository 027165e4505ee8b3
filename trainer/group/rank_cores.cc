#include "trainer/group/rank_cores.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <vector>

namespace ddprun {

// A matching of ranks and cores, grown by one rank at a time.
bool CoreForEach(std::span<const cpu_set_t> ranks) {
  std::vector<const cpu_set_t*> rank_on(CPU_SETSIZE, nullptr);
  std::vector<bool> seen;
  const std::function<bool(const cpu_set_t&)> seat = [&](const cpu_set_t& rank) {
    for (std::size_t core = 0; core < CPU_SETSIZE; ++core) {
      if (!CPU_ISSET(core, &rank) || seen[core]) {
        continue;
      }
      seen[core] = true;
      // Free, or the rank that is there has another core.
      if (rank_on[core] == nullptr || seat(*rank_on[core])) {
        rank_on[core] = &rank;
        return true;
      }
    }
    return false;
  };
  return std::ranges::all_of(ranks, [&](const cpu_set_t& rank) {
    seen.assign(CPU_SETSIZE, false);
    return seat(rank);
  });
}

}  // namespace ddprun
