#include "rendezvous/stragglers.h"

#include <algorithm>
#include <string>

namespace ddprun {
namespace {

constexpr int kShareOfStep = 5;

}  // namespace

void StepWorks::Add(const NodeId& node, std::uint32_t first_rank, const RankDetails& details) {
  std::uint32_t rank = first_rank;
  for (const RankDetail& one : details.ranks) {
    const bool runs = one.state == RankState::kRunning || one.state == RankState::kLate;
    if (runs && one.work.count() > 0) {
      ranks_.push_back({one.work, one.step_time, rank, &node});
    }
    ++rank;
  }
}

Stragglers StepWorks::Slowest() const {
  Stragglers found;
  if (ranks_.empty()) {
    return found;
  }
  std::vector<One> sorted = ranks_;
  std::ranges::sort(sorted, [](const One& a, const One& b) {
    return a.work != b.work ? a.work > b.work : a.rank < b.rank;
  });
  found.least = sorted.back().work;
  found.usual = sorted[sorted.size() / 2].work;
  found.most = sorted.front().work;
  for (const One& one : sorted) {
    const auto more = one.work - found.usual;
    if (static_cast<double>(one.work.count()) <
        kSlowerThanMost * static_cast<double>(found.usual.count())) {
      break;
    }
    if (more * kShareOfStep < one.step) {
      continue;
    }
    if (found.named.size() < kMostStragglers) {
      found.named.push_back({one.rank, *one.node, one.work});
    }
    ++found.count;
  }
  return found;
}

Stragglers StragglersOf(const RunStatus& run) {
  StepWorks works;
  for (const NodeStatus& node : run.nodes) {
    if (node.in_world) {
      works.Add(node.node, node.first_rank, node.rank_details);
    }
  }
  return works.Slowest();
}

std::string Describe(const Straggler& straggler, std::chrono::microseconds usual) {
  return "rank " + std::to_string(straggler.rank) + " on " + straggler.node +
         " is slow: each of its last " + std::to_string(kWorkSteps) + " steps took it " +
         FormatDuration(straggler.work) + " or more by itself, most ranks " + FormatDuration(usual);
}

}  // namespace ddprun
