#include "rendezvous/closeups.h"

#include <algorithm>
#include <utility>

namespace ddprun {

void Closeups::Take(const NodeKey& key, Generation generation, Closeup closeup) {
  if (generation != generation_) {
    generation_ = generation;
    nodes_.clear();
  }
  if (closeup.training) {
    Note(*closeup.training);
  }
  nodes_[key] = std::move(closeup);
}

void Closeups::Note(const TrainingPoint& point) {
  // A world that goes on from a checkpoint trains some steps again.
  const auto later = std::ranges::lower_bound(curve_, point.step, {}, &TrainingPoint::step);
  const bool newest = later == curve_.end();
  if (!newest && later + 1 == curve_.end() && later->step == point.step) {
    *later = point;
    return;
  }
  curve_.erase(later, curve_.end());
  // The newest stays, however near: it is replaced by the next one.
  if (curve_.size() >= 2 && curve_.back().step - curve_[curve_.size() - 2].step < apart_) {
    curve_.back() = point;
    return;
  }
  curve_.push_back(point);
  if (curve_.size() > kMostTrainingPoints) {
    apart_ = (point.step - curve_.front().step) / (kMostTrainingPoints / 2);
    std::vector<TrainingPoint> fewer{curve_.front()};
    for (const TrainingPoint& kept : curve_) {
      if (kept.step - fewer.back().step >= std::max<std::uint64_t>(apart_, 2)) {
        fewer.push_back(kept);
      }
    }
    curve_ = std::move(fewer);
  }
}

void Closeups::AddTo(RunStatus& status) const {
  std::size_t shown = 0;
  for (NodeStatus& node : status.nodes) {
    const auto found = nodes_.find({node.node, node.incarnation});
    if (found != nodes_.end() && shown + found->second.ranks.size() <= kMostShownRanks) {
      shown += found->second.ranks.size();
      node.closeup = found->second;
      node.closeup.training.reset();  // The curve has it.
    }
  }
  status.training = curve_;
}

}  // namespace ddprun
