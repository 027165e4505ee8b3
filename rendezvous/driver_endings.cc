// What outlives a run's own state: how it ended, where that is kept, and who is told of it.
#include <algorithm>

#include "rendezvous/core/ended_run.h"
#include "rendezvous/core/recovery.h"
#include "rendezvous/driver.h"

namespace ddprun {

void CoordinatorDriver::UseClaim(const std::vector<EndedRun>& ended, std::size_t most,
                                 KeepOutcomes keep) {
  config_.claims = true;
  ended_ = ended;
  for (const EndedRun& run : ended_) {
    forgotten_ = std::max(forgotten_, run.newest);
  }
  most_in_claim_ = most;
  keep_outcomes_ = std::move(keep);
}

void CoordinatorDriver::OutcomesAreKept(const std::vector<EndedRun>& kept) {
  std::vector<RunId> told;
  for (const RunId& run_id : unkept_) {
    // Where more end at once than a claim takes, the first of them are in none.
    if (FindEnded(kept, run_id) != nullptr || FindEnded(InClaim(), run_id) == nullptr) {
      told.push_back(run_id);
    }
  }
  for (const RunId& run_id : told) {
    unkept_.erase(run_id);
    Feed(run_id, OutcomeKept{});
  }
}

// The run is not begun again for it: it would stand in the way of the next one of that name.
bool CoordinatorDriver::TellEnd(const NodeReport& report, PendingSync& call) {
  const EndedRun* const ended = FindEnded(ended_, report.run_id);
  if (ended == nullptr || report.hosting != Hosting::kNothing || report.term > config_.term ||
      !IsOfEnded(*ended, report)) {
    return false;
  }
  had_runs_ = true;
  const Time now = loop_.Now();
  CoordinatorState run = Restore(*ended, now);
  (void)Step(run, config_, Reported{report}, now);
  call.Answer(ReplyWith(run, DirectiveFor(run, config_, report.node, report.incarnation, now)));
  return true;
}

std::vector<EndedRun> CoordinatorDriver::InClaim() const {
  const std::size_t most = std::min(ended_.size(), most_in_claim_);
  return {ended_.end() - static_cast<std::ptrdiff_t>(most), ended_.end()};
}

void CoordinatorDriver::KeepInClaim() {
  if (keep_outcomes_) {
    keep_outcomes_(InClaim());
  }
}

void CoordinatorDriver::RememberEnd(const EndedRun& run) {
  Remember(ended_, run, kMostEndedRuns);
  KeepInClaim();
}

void CoordinatorDriver::ForgetRun(const RunId& run_id) {
  const auto found = runs_.find(run_id);
  const CoordinatorState& state = found->second->state;
  RememberEnd(ToRemember(run_id, state.newest, *state.outcome));
  forgotten_ = std::max(forgotten_, state.newest);
  unkept_.erase(run_id);
  road_.ForgetRun(run_id);
  runs_.erase(found);
}

bool CoordinatorDriver::ForgetARunThatWasLeft() {
  const auto when = [](const auto& run) { return run.second->forget.value_or(Time::max()); };
  const auto first = std::ranges::min_element(runs_, {}, when);
  if (first != runs_.end() && first->second->forget) {
    ForgetRun(RunId(first->first));
    return true;
  }
  const auto empty = std::ranges::find_if(
      runs_, [](const auto& run) { return NobodyHasBegun(run.second->state); });
  if (empty == runs_.end()) {
    return false;
  }
  forgotten_ = std::max(forgotten_, empty->second->state.newest);
  road_.ForgetRun(empty->first);
  runs_.erase(empty);
  return true;
}

Duration CoordinatorDriver::StaysFor() const {
  const Time now = loop_.Now();
  return stays_until_ && now < *stays_until_ ? std::chrono::ceil<Duration>(*stays_until_ - now)
                                             : Duration{0};
}

bool CoordinatorDriver::RunsHaveEnded() const {
  return (had_runs_ || !took_over_) && std::all_of(runs_.begin(), runs_.end(), [](const auto& run) {
           return NoWorkersRemain(run.second->state);
         });
}

Duration CoordinatorDriver::LongestLease() const {
  Duration longest = config_.base_lease;
  for (const auto& [id, run] : runs_) {
    longest = std::max(longest, LeaseOf(run->state, config_));
  }
  return longest;
}

const CoordinatorState* CoordinatorDriver::StateOf(const RunId& run_id) const {
  const auto found = runs_.find(run_id);
  return found == runs_.end() ? nullptr : &found->second->state;
}

std::size_t CoordinatorDriver::NodesServed() const {
  std::size_t nodes = 0;
  for (const auto& [id, run] : runs_) {
    nodes += run->state.index.served;
  }
  return nodes;
}

}  // namespace ddprun
