// Finds slow ranks: the times that the ranks of a world need for a step by themselves, side by
// side.
//
// In a world that trains together all ranks take their steps at the pace of the slowest, so the
// time of a step shows nothing. The measure is the time in which a rank works before it waits for
// the others (WORK_USEC), and the least of its last kWorkSteps steps, so that one that is held up
// now and then is not named. A rank is slow if it needs kSlowerThanMost times what most need, and
// that is a fifth of a step at least: less is nothing that anyone waits for.
//
// Pure. For people: nothing is decided by it.
#pragma once

#include <vector>

#include "rendezvous/core/status.h"

namespace ddprun {

inline constexpr double kSlowerThanMost = 1.5;
inline constexpr std::size_t kMostStragglers = 8;

struct Straggler {
  std::uint32_t rank = 0;
  NodeId node;
  std::chrono::microseconds work{};
  bool operator==(const Straggler&) const = default;
};

struct Stragglers {
  std::vector<Straggler> named;       // The slowest first, kMostStragglers at most.
  std::size_t count = 0;              // All of them.
  std::chrono::microseconds least{};  // The quickest rank's time for a step; 0: none is known.
  std::chrono::microseconds usual{};  // The median rank's time; of two ranks the quicker one's.
  std::chrono::microseconds most{};   // The slowest rank's time for a step.
};

class StepWorks {
 public:
  // `node` is only looked at until Slowest.
  void Add(const NodeId& node, std::uint32_t first_rank, const RankDetails& details);
  Stragglers Slowest() const;

 private:
  struct One {
    std::chrono::microseconds work;
    std::chrono::microseconds step;
    std::uint32_t rank;
    const NodeId* node;
  };
  std::vector<One> ranks_;
};

Stragglers StragglersOf(const RunStatus& run);

// "rank 3 on n1 is slow: each of its last 20 steps took it 62 ms or more by itself, most ranks 41
// ms"
std::string Describe(const Straggler& straggler, std::chrono::microseconds usual);

}  // namespace ddprun
