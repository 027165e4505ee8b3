// What has happened to a run: numbered, kept, and what nodes have kept of an earlier server's.
#include <algorithm>
#include <utility>

#include "rendezvous/driver.h"
#include "rendezvous/notice_level.h"
#include "rendezvous/real_names.h"

namespace ddprun {

void CoordinatorDriver::Tell(const RunId& run_id, RunEntry& run, std::vector<RunEvent> events) {
  for (RunEvent& event : events) {
    if (!lines_.Say(LevelOf(event.level), event.reason, event.text)) {
      continue;
    }
    event.term = config_.term;
    event.when = {UnixMilliseconds()};
    event.told = loop_.Now();
    const RunEvent& told = run.history.Append(std::move(event));
    if (keep_events_) {
      keep_events_(run_id, told);
    }
  }
}

void CoordinatorDriver::TakeCloseup(const RunId& run_id, RunEntry& run, const NodeKey& key,
                                    Closeup closeup) {
  const Member* const member = FindMember(run.state, key);
  if (run.state.world && member != nullptr) {
    run.closeups.Take(key, run.state.world->generation, member->first_rank, std::move(closeup));
    Tell(run_id, run, run.closeups.NewlySlow(loop_.Now()));
  }
}

// Of whoever may have been in a world: a stranger's would only push others out.
void CoordinatorDriver::TakeIn(const RunId& run_id, RunEntry& run, const NodeKey& key,
                               std::vector<RunEvent> events) {
  const bool member = FindMember(run.state, key) != nullptr;
  const bool known = run.state.phase == Phase::kRecovering && run.state.nodes.contains(key);
  if (events.empty() || (!member && !known)) {
    return;
  }
  // Of each node for itself: one that makes a mark up silences nobody else.
  for (const RunEvent& event : events) {
    if (event.term < config_.term) {
      run.told[key] = std::max(run.told[key], event.mark());
    }
  }
  for (const RunEvent& event : run.history.Merge(std::move(events), config_.term)) {
    if (keep_events_) {
      keep_events_(run_id, event);
    }
  }
}

}  // namespace ddprun
