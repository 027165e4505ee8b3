#include "rendezvous/core/failover/failover.h"

#include <algorithm>

#include "common/overload.h"
#include "common/slug.h"
#include "rendezvous/core/failover/serving.h"

namespace ddprun {
namespace {

bool Missed(const FailoverState& state, const FailoverConfig& config, Time now) {
  return now >= state.heard + LeaseNow(state, config);
}

void Take(FailoverStepContext& step) {
  FailoverState& state = step.state;
  state.phase = FailoverPhase::kTaking;
  const std::uint64_t last = state.newest ? state.newest->number : 0;
  // Only a process that came after a run's end is an outsider to it, and may begin another one.
  const bool known = state.ever_heard || state.was_open;
  const bool takes_over = last > 0 && (!state.newest->over || known);
  const bool goes_on = takes_over && state.newest->closed && !state.newest->over;
  // The cause that makes machines late does not end with a term.
  const Duration lease = std::min(LeaseNow(state, step.config), step.config.long_lease);
  Observe(state.lateness, lease, step.now, kLatenessRemembered);
  step.effects.push_back(TakeClaim{last + 1, state.highest, takes_over,
                                   takes_over && state.newest->over,
                                   state.newest ? state.newest->ended : std::vector<EndedRun>(),
                                   goes_on ? state.newest->died : std::nullopt, lease});
}

void GoTo(FailoverStepContext& step, const Endpoint& endpoint) {
  if (step.state.following != endpoint) {
    step.state.following = endpoint;
    step.effects.push_back(Follow{endpoint});
  }
}

// Whether the newest claim is free for this node, at the moment when the read of it began.
bool IsFree(const FailoverState& state, const FailoverConfig& config, Time began, Time now) {
  const Claim& claim = *state.newest;
  if (state.own == claim.term) {
    return true;
  }
  if (claim.closed) {
    return state.ever_heard || config.may_begin;
  }
  return began >= *state.still_since + kLeasesUntilStale * LeaseNow(state, config) &&
         Missed(state, config, now);
}

// Learns from the claim what agents elsewhere learn from their calls.
void HearByClaim(FailoverStepContext& step, const std::optional<Claim>& found) {
  FailoverState& state = step.state;
  if (!step.config.listens && found && state.newest && found->term == state.newest->term &&
      found->counter > state.newest->counter) {
    state.heard = step.now;
    state.told_missing = false;
  }
}

void NoteDamage(FailoverStepContext& step, const Claim& found) {
  const std::optional<Claim>& newest = step.state.newest;
  if (found.damaged && (!newest || !newest->damaged || found.number != newest->number)) {
    step.Say(
        NoticeLevel::kWarning,
        "claim " + std::to_string(found.number) + " in " + step.config.claims +
            " is incomplete or damaged; a node becomes the leader when it has not changed for " +
            FormatDuration(kLeasesUntilStale * LeaseNow(step.state, step.config)));
  }
}

void OnRead(FailoverStepContext& step, const ClaimsRead& read) {
  FailoverState& state = step.state;
  if (state.phase != FailoverPhase::kFollowing) {
    return;
  }
  const Duration lease = LeaseNow(state, step.config);
  state.busy = false;
  NoteClaimsAnswer(step);
  state.told_unreadable = false;
  HearByClaim(step, read.newest);
  const bool missed = Missed(state, step.config, step.now);
  state.next = step.now + lease / (missed         ? kReadsPerLeaseWhenMissed
                                   : state.failed ? kReadsPerLeaseWhenFailed
                                                  : kMovesPerLease);
  if (!read.newest && !state.newest) {
    if (step.config.may_begin) {
      Take(step);
    } else {
      GoTo(step, step.config.given);
    }
    return;
  }
  // A directory that shows no claim any more shows what was long ago: nothing is known to have
  // moved.
  const Claim found = read.newest ? *read.newest : *state.newest;
  if (state.newest && found.number < state.newest->number && found.term < state.newest->term) {
    return;  // A stale listing.
  }
  const bool is_new = !state.newest || found.term != state.newest->term;
  // Of what is read here and there, one may be older than the other.
  const bool moved = !is_new && found.counter > state.newest->counter;
  if (is_new || !state.still_since || moved) {
    state.still_since = step.now;
  }
  state.was_open = !found.closed || (!is_new && state.was_open);
  if (is_new) {
    state.seen = {};
    state.heard = step.now;  // It has a lease to answer.
    state.failed = false;
    state.told_missing = false;
    state.told_refused = false;
  }
  NoteDamage(step, found);
  const std::uint64_t counter =
      is_new ? found.counter : std::max(found.counter, state.newest->counter);
  state.newest = found;
  state.newest->counter = counter;
  Observe(state.seen, found.lease, step.now, kLongLeasesRemembered * step.config.long_lease);
  state.highest = std::max(state.highest, found.term);
  if (IsFree(state, step.config, read.began, step.now)) {
    Take(step);
    return;
  }
  if (!found.damaged || !state.following) {
    GoTo(step, found.closed || found.damaged ? step.config.given : found.endpoint);
  }
  if (missed && !is_new && !found.closed && !found.damaged && !state.told_missing) {
    state.told_missing = true;
    step.Say(NoticeLevel::kWarning,
             "the server at " + ToString(found.endpoint) +
                 " does not answer; a node becomes the leader when the server's claim in " +
                 step.config.claims + " has not changed for " +
                 FormatDuration(kLeasesUntilStale * lease));
  }
}

void OnUnreadable(FailoverStepContext& step, const ClaimsUnreadable& unreadable) {
  FailoverState& state = step.state;
  if (state.phase != FailoverPhase::kFollowing) {
    return;
  }
  state.busy = false;
  NoteClaimsAnswer(step);
  state.still_since.reset();
  const Duration lease = LeaseNow(state, step.config);
  state.next = step.now + lease / (state.following ? kMovesPerLease : kReadsPerLeaseWhenMissed);
  const bool starting = !state.following && step.now < state.begun + lease;
  if (!state.told_unreadable && !starting) {
    state.told_unreadable = true;
    step.Say(NoticeLevel::kWarning,
             "cannot read " + step.config.claims + ": " +
                 Continue(unreadable.text, "; until it can, this node cannot become the leader"));
  }
}

void OnHeard(FailoverStepContext& step, const ServerHeard& heard) {
  FailoverState& state = step.state;
  if (heard.term < state.highest) {
    return;  // A server whose time is over.
  }
  state.highest = heard.term;
  state.heard = step.now;
  state.ever_heard = true;
  state.failed = false;
  state.told_missing = false;
  state.lease = heard.lease;
}

void OnServerCallFailed(FailoverStepContext& step) {
  FailoverState& state = step.state;
  if (state.phase == FailoverPhase::kFollowing && !state.failed) {
    state.failed = true;
    const Duration often = LeaseNow(state, step.config) / kReadsPerLeaseWhenFailed;
    state.next = std::min(state.next, step.now + often);
  }
}

// The next look finds whose claim was made, or that none was. The old claim has not moved by it.
void OnNotClaimed(FailoverStepContext& step, const NotClaimed& refused) {
  FailoverState& state = step.state;
  state.phase = FailoverPhase::kFollowing;
  state.busy = false;
  state.next =
      step.now + LeaseNow(state, step.config) /
                     (refused.was_first ? kReadsPerLeaseWhenFailed : kReadsPerLeaseWhenMissed);
  if (!refused.was_first && !state.told_refused) {
    state.told_refused = true;
    step.Say(NoticeLevel::kWarning,
             "this node cannot become the leader: " + Continue(refused.text, "; trying again"));
  }
}

// Something happens every third of a lease. Where nothing did, this process stood still: that is no
// silence of the server's.
void ForgiveStandingStill(FailoverStepContext& step) {
  FailoverState& state = step.state;
  const Duration lease = LeaseNow(state, step.config);
  const Time due = state.last_event + lease / kMovesPerLease;
  if (step.now > due + lease / kLateTicksPerLease) {
    state.heard = step.now;
    state.resumed_at = step.now;
  }
  if (state.phase != FailoverPhase::kTaking) {  // Then nothing is due.
    ObserveLate(state.lateness, step.now - due, kStandstillsPerLease, step.config.long_lease,
                step.now);
  }
  state.last_event = step.now;
}

void OnTick(FailoverStepContext& step) {
  FailoverState& state = step.state;
  LetGoInTime(step);
  if (state.phase == FailoverPhase::kTaking || state.busy || step.now < state.next) {
    return;
  }
  state.busy = true;
  state.asked = step.now;
  if (state.phase == FailoverPhase::kServing) {
    MoveOn(step);
  } else {
    step.effects.push_back(ReadClaims{});
  }
}

}  // namespace

std::vector<FailoverEffect> Step(FailoverState& state, const FailoverConfig& config,
                                 const FailoverEvent& event, Time now) {
  FailoverStepContext step{state, config, now, {}};
  ForgiveStandingStill(step);
  std::visit(Overload{
                 [&](const ClaimsRead& read) { OnRead(step, read); },
                 [&](const ClaimsUnreadable& unreadable) { OnUnreadable(step, unreadable); },
                 [&](const ServerHeard& heard) { OnHeard(step, heard); },
                 [&](const ServerCallFailed&) { OnServerCallFailed(step); },
                 [&](const LaterTermHeard& later) {
                   if (state.phase == FailoverPhase::kServing && later.term > state.highest) {
                     state.highest = later.term;
                     LetGo(step, "a node has heard from a newer server than this one");
                   }
                 },
                 [&](const Claimed& claimed) { OnClaimed(step, claimed); },
                 [&](const NotClaimed& refused) { OnNotClaimed(step, refused); },
                 [&](const CounterMoved& moved) { OnMoved(step, moved); },
                 [&](const CounterStuck& stuck) { OnStuck(step, stuck); },
                 [&](const LeaseSet& set) { state.lease = set.lease; },
                 [&](const RunsEnded& runs) {
                   state.ended = runs.ended;
                   state.next = std::min(state.next, now);
                   OnTick(step);
                 },
                 [&](const FailoverTick&) { OnTick(step); },
             },
             event);
  return std::move(step.effects);
}

std::optional<Time> NextWake(const FailoverState& state, const FailoverConfig& config) {
  std::optional<Time> wake;
  if (state.phase != FailoverPhase::kTaking) {
    const Time third = state.last_event + LeaseNow(state, config) / kMovesPerLease;
    wake = state.busy ? third : std::min(state.next, third);
  }
  if (state.phase == FailoverPhase::kServing) {
    const Time limit = LimitOf(state, config);
    wake = wake ? std::min(*wake, limit) : limit;
  }
  return wake;
}

void BeginFailover(FailoverState& state, Time now) {
  state.begun = now;
  state.heard = now;
  state.next = now;
  state.last_event = now;
}

}  // namespace ddprun
