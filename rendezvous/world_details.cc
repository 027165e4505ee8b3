#include "rendezvous/world_details.h"

#include <algorithm>
#include <utility>

namespace ddprun {
namespace {

constexpr Duration kBetweenLooks{1'000};

}  // namespace

void WorldDetails::Take(const NodeKey& key, Generation generation, std::uint32_t first_rank,
                        RankDetails details) {
  if (generation != generation_) {
    generation_ = generation;
    nodes_.clear();
    named_.clear();
  }
  if (details.training) {
    Note(*details.training);
  }
  steps_ = details.steps == 0 ? steps_ : details.steps;
  nodes_[key] = {first_rank, std::move(details)};
}

std::vector<RunEvent> WorldDetails::NewlySlow(Time now) {
  if (named_.size() >= kMostStragglers || (looked_ && now < *looked_ + kBetweenLooks)) {
    return {};
  }
  looked_ = now;
  StepWorks works;
  for (const auto& [key, near] : nodes_) {
    works.Add(key.node, near.first_rank, near.rank_details);
  }
  std::vector<RunEvent> events;
  const Stragglers found = works.Slowest();
  for (const Straggler& straggler : found.named) {
    if (named_.size() < kMostStragglers && named_.insert(straggler.rank).second) {
      events.push_back({.level = NoticeLevel::kWarning,
                        .text = Describe(straggler, found.usual),
                        .kind = kEventSlow,
                        .generation = generation_,
                        .node = straggler.node});
    }
  }
  return events;
}

void WorldDetails::Note(const TrainingPoint& point) {
  // A world that continues from a checkpoint trains some steps again.
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

void WorldDetails::AddTo(RunStatus& status) const {
  std::size_t shown = 0;
  for (NodeStatus& node : status.nodes) {
    const auto found = nodes_.find({node.node, node.incarnation});
    if (found != nodes_.end() &&
        shown + found->second.rank_details.ranks.size() <= kMostShownRanks) {
      shown += found->second.rank_details.ranks.size();
      node.rank_details = found->second.rank_details;
      node.rank_details.training.reset();  // The curve has it.
    }
  }
  status.training = curve_;
  status.steps = steps_;
}

}  // namespace ddprun
