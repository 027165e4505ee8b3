#include "rendezvous/core/fencing.h"

#include <algorithm>

#include "rendezvous/core/node_index.h"

namespace ddprun {

std::optional<Time> FenceFrom(const CoordinatorState& state, Time heard, Time now) {
  if (!state.shape || state.shape->fence_after == Duration{0}) {
    return std::nullopt;
  }
  const Time fence = heard + state.shape->fence_after + kKillTakes;
  return fence > now ? std::optional(fence) : std::nullopt;
}

std::optional<Time> NextFence(const CoordinatorState& state) {
  std::optional<Time> next;
  if (state.world) {
    for (const std::size_t rank : state.world->roll.lost) {
      const std::optional<Time>& fence = state.world->members[rank].fence;
      if (fence && (!next || *fence < *next)) {
        next = fence;
      }
    }
  }
  return next;
}

void EndFences(CoordinatorTurn& turn) {
  CoordinatorState& state = turn.state;
  const std::optional<Time> next = NextFence(state);
  if (!next || turn.now < *next) {
    return;
  }
  for (Member& member : state.world->members) {
    if (member.fence && turn.now >= *member.fence) {
      member.fence.reset();
    }
  }
  RefileAll(state, turn.config);
}

void FenceAnew(CoordinatorTurn& turn, const NodeReport& report) {
  CoordinatorState& state = turn.state;
  if (!state.world || report.hosting == Hosting::kNothing ||
      report.placement->world_id != state.world->id ||
      !state.world->roll.lost.contains(report.placement->group_rank)) {
    return;
  }
  if (const std::optional<Time> fence = FenceFrom(state, turn.now, turn.now)) {
    state.world->members[report.placement->group_rank].fence = fence;
    RefileAll(state, turn.config);
  }
}

// The same node in a new membership too: its floor says that it knew the world. A stranger on its
// place promises nothing about this generation, and one that has run another world of that number
// nothing about this one.
void EndFenceOf(CoordinatorTurn& turn, const NodeReport& report) {
  CoordinatorState& state = turn.state;
  if (!state.world || state.world->roll.lost.empty() || report.hosting != Hosting::kNothing ||
      report.unkillable > 0 || report.floor < state.world->generation ||
      (report.placement && !SpeaksOfWorld(report, *state.world))) {
    return;
  }
  bool ended = false;
  for (const std::size_t rank : state.world->roll.lost) {
    Member& member = state.world->members[rank];
    if (member.fence && member.key.node == report.node) {
      member.fence.reset();
      ended = true;
    }
  }
  if (ended) {
    RefileAll(state, turn.config);
    JudgeIfDrained(turn);
  }
}

}  // namespace ddprun
