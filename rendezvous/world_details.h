// The nodes of a run's world seen from near, and the curve of its training: what their reports
// bring for people. No core knows it, and nothing is decided by it.
//
// Bounded: of each member of the newest world the newest word, kMostTrainingPoints of the curve
// (when they are taken, those go that are nearer to others than half of that many would be). Slow
// ranks are looked for once a second at most, and kMostStragglers are named in a generation, each
// once.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <vector>

#include "rendezvous/core/status.h"
#include "rendezvous/stragglers.h"

namespace ddprun {

class WorldDetails {
 public:
  // Of a member of the world of `generation`, the newest.
  void Take(const NodeKey& key, Generation generation, std::uint32_t first_rank,
            RankDetails details);

  // Ranks that are slow and were not named yet, as events.
  std::vector<RunEvent> NewlySlow(Time now);

  // Each node's, as far as kMostShownRanks go, the curve, and how many steps there are.
  void AddTo(RunStatus& status) const;

  const std::vector<TrainingPoint>& curve() const { return curve_; }

 private:
  struct Near {
    std::uint32_t first_rank = 0;
    RankDetails rank_details;
  };

  void Note(const TrainingPoint& point);

  Generation generation_;
  std::map<NodeKey, Near> nodes_;
  std::set<std::uint32_t> named_;  // Ranks.
  std::optional<Time> looked_;
  std::vector<TrainingPoint> curve_;  // By steps.
  std::uint64_t steps_ = 0;           // In all, as a worker reported last.
  std::uint64_t apart_ = 0;           // Points are so many steps apart at least.
};

}  // namespace ddprun
