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
    std::vector<TrainingPoint> half;
    for (std::size_t i = 0; i < curve_.size(); i += 2) {
      half.push_back(curve_[i]);
    }
    curve_ = std::move(half);
    apart_ = (curve_.back().step - curve_.front().step) / (kMostTrainingPoints - 1);
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
