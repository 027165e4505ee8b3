#include "rendezvous/core/fencing.h"

#include <algorithm>

namespace ddprun {

std::optional<Time> FenceFrom(const std::optional<RunSpec>& spec, Time heard, Time now) {
  if (!spec || spec->fence_after == Duration{0}) {
    return std::nullopt;
  }
  const Time fence = heard + spec->fence_after + kKillTakes;
  return fence > now ? std::optional(fence) : std::nullopt;
}

std::optional<Time> NextFence(const Roster& roster) {
  std::optional<Time> next;
  if (roster.world) {
    for (const std::size_t rank : roster.world->roll.lost) {
      const std::optional<Time>& fence = roster.world->members[rank].fence;
      if (fence && (!next || *fence < *next)) {
        next = fence;
      }
    }
  }
  return next;
}

void EndFences(Roster& roster, const CoordinatorConfig& config, Time now) {
  const std::optional<Time> next = NextFence(roster);
  if (!next || now < *next) {
    return;
  }
  ChangeAll(roster, config, [&](Roster& all) {
    for (Member& member : all.world->members) {
      if (member.fence && now >= *member.fence) {
        member.fence.reset();
      }
    }
  });
}

void FenceAnew(Roster& roster, const CoordinatorConfig& config, const NodeReport& report,
               Time now) {
  if (!roster.world || report.hosting == Hosting::kNothing || report.unkillable > 0 ||
      report.placement->world_id != roster.world->id ||
      !roster.world->roll.lost.contains(report.placement->group_rank)) {
    return;
  }
  if (const std::optional<Time> fence = FenceFrom(roster.spec, now, now)) {
    ChangeAll(roster, config,
              [&](Roster& all) { all.world->members[report.placement->group_rank].fence = fence; });
  }
}

// The same process in a new membership too. Another machine of the same name promises nothing about
// the workers of this one.
bool EndFenceOf(Roster& roster, const CoordinatorConfig& config, const NodeReport& report) {
  if (!roster.world || roster.world->roll.lost.empty() || report.hosting != Hosting::kNothing ||
      report.unkillable > 0 || report.floor < roster.world->generation) {
    return false;
  }
  const auto& lost = roster.world->roll.lost;
  const auto ends = [&](const Member& member) {
    return member.fence && member.key.node == report.node &&
           (member.key.incarnation == report.incarnation ||
            member.key.incarnation == report.former_incarnation);
  };
  if (std::none_of(lost.begin(), lost.end(),
                   [&](std::size_t rank) { return ends(roster.world->members[rank]); })) {
    return false;
  }
  ChangeAll(roster, config, [&](Roster& all) {
    for (Member& member : all.world->members) {
      if (member.lost && ends(member)) {
        member.fence.reset();
      }
    }
  });
  return true;
}

}  // namespace ddprun
