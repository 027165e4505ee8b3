#include "trainer/group/rank_cores.h"

#include <cstddef>
#include <vector>

namespace ddprun {
namespace {

constexpr int kNobody = -1;

// A matching of ranks and cores, grown by one rank at a time.
class Seating {
 public:
  explicit Seating(std::span<const cpu_set_t> ranks)
      : ranks_(ranks), rank_on_(CPU_SETSIZE, kNobody) {}

  bool Seat(int rank) {
    seen_.assign(CPU_SETSIZE, false);
    return Find(rank);
  }

 private:
  bool Find(int rank) {
    const cpu_set_t& mine = ranks_[static_cast<std::size_t>(rank)];
    for (std::size_t core = 0; core < CPU_SETSIZE; ++core) {
      if (CPU_ISSET(core, &mine) && rank_on_[core] == kNobody) {
        rank_on_[core] = rank;
        return true;
      }
    }
    for (std::size_t core = 0; core < CPU_SETSIZE; ++core) {
      if (CPU_ISSET(core, &mine) && !seen_[core]) {
        seen_[core] = true;
        if (Find(rank_on_[core])) {  // The rank that was there has another core.
          rank_on_[core] = rank;
          return true;
        }
      }
    }
    return false;
  }

  const std::span<const cpu_set_t> ranks_;
  std::vector<int> rank_on_;
  std::vector<bool> seen_;
};

}  // namespace

bool CoreForEach(std::span<const cpu_set_t> ranks) {
  Seating seating(ranks);
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    if (!seating.Seat(static_cast<int>(rank))) {
      return false;
    }
  }
  return true;
}

}  // namespace ddprun
