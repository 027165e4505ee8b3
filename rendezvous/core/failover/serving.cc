#include "rendezvous/core/failover/serving.h"

#include <algorithm>

#include "rendezvous/core/recovery.h"

namespace ddprun {
namespace {

// The lease by which others reckon: a holder's own lease counts for no other node until its claim
// says so.
Duration ClaimsLease(const FailoverState& state, const FailoverConfig& config) {
  return std::max(config.lease, state.published_lease);
}

void Keep(FailoverStepContext& step, Time began) {
  step.state.last_write_began = began;
  if (began >= step.state.resumed_at) {  // Else the answer is as old as the sleep.
    step.state.last_write_confirmed = step.now;
  }
}

}  // namespace

Duration LeaseNow(const FailoverState& state, const FailoverConfig& config) {
  const Duration claimed = state.newest ? state.newest->lease : Duration{0};
  return std::max({config.lease, state.lease, claimed, Value(state.seen), Value(state.lateness)});
}

void NoteClaimsAnswer(FailoverStepContext& step) {
  ObserveLate(step.state.lateness, step.now - step.state.asked, kClaimCallsPerLease,
              step.config.long_lease, step.now);
}

void BecomeFollower(FailoverStepContext& step) {
  step.state.phase = FailoverPhase::kFollowing;
  step.state.busy = false;
  step.state.next = step.now;
  step.state.still_since.reset();
  step.state.heard = step.now;
  step.state.failed = false;
  step.state.told_missing = false;
  step.state.told_refused = false;
  step.state.told_unreadable = false;
  step.state.following.reset();
}

// A holder lets go then: a lease after the first write that could have failed.
Time LimitOf(const FailoverState& state, const FailoverConfig& config) {
  const Duration patience = ClaimsLease(state, config) / kMovesPerLease * kStepDownThirds;
  return std::min(state.last_write_began + patience, state.step_down_by);
}

void LetGo(FailoverStepContext& step, std::string text) {
  step.effects.push_back(StepDown{std::move(text), ClosedClaim(step.state, false)});
  BecomeFollower(step);
}

void LetGoInTime(FailoverStepContext& step) {
  const FailoverState& state = step.state;
  if (state.phase == FailoverPhase::kServing && step.now >= LimitOf(state, step.config)) {
    LetGo(step, "the claim in " + step.config.claims + " could not be written for " +
                    FormatDuration(step.now - state.last_write_began));
  }
}

void OnClaimed(FailoverStepContext& step, const Claimed& claimed) {
  FailoverState& state = step.state;
  state.phase = FailoverPhase::kServing;
  state.newest = claimed.claim;
  state.was_open = true;
  state.own = claimed.claim.term;
  state.ended = claimed.claim.ended;
  state.last_counter_written = claimed.claim.counter;
  state.published_lease = claimed.claim.lease;
  state.step_down_by = Time::max();
  state.highest = std::max(state.highest, claimed.claim.term);
  Keep(step, claimed.began);
  state.busy = false;
  state.next = step.now + ClaimsLease(state, step.config) / kMovesPerLease;
}

void OnMoved(FailoverStepContext& step, const CounterMoved& moved) {
  FailoverState& state = step.state;
  if (state.phase != FailoverPhase::kServing || moved.claim.term != state.own) {
    return;
  }
  state.busy = false;
  NoteClaimsAnswer(step);
  if (moved.superseded) {
    LetGo(step, "another node has become the leader");
    return;
  }
  if (state.told_unreadable) {
    step.Say(NoticeLevel::kInfo, step.config.claims + " can be written again");
  }
  state.told_unreadable = false;
  Keep(step, moved.began);
  state.newest = moved.claim;
  state.published_lease = moved.claim.lease;
  state.step_down_by = Time::max();
  const bool told_all = moved.claim.ended == state.ended;
  state.next =
      step.now + (told_all ? ClaimsLease(state, step.config) / kMovesPerLease : Duration{0});
}

void OnStuck(FailoverStepContext& step, const CounterStuck& stuck) {
  FailoverState& state = step.state;
  if (state.phase != FailoverPhase::kServing || stuck.term != state.own) {
    return;
  }
  const Duration lease = ClaimsLease(state, step.config);
  state.busy = false;
  NoteClaimsAnswer(step);
  state.next = step.now + lease / kReadsPerLeaseWhenMissed;
  if (!state.told_unreadable) {
    state.told_unreadable = true;
    step.Say(NoticeLevel::kWarning, "the claim in " + step.config.claims + " cannot be written: " +
                                        stuck.text + "; this server steps down if this lasts " +
                                        FormatDuration(lease) + " [claim-not-written]");
  }
}

void MoveOn(FailoverStepContext& step) {
  FailoverState& state = step.state;
  Claim claim = *state.newest;
  claim.counter = ++state.last_counter_written;
  claim.lease = std::max({step.config.lease, state.lease, Value(state.lateness)});
  const Duration patience = claim.lease / kMovesPerLease * kStepDownThirds;
  state.step_down_by = std::min(state.step_down_by, step.now + patience);
  claim.ended = state.ended;
  step.effects.push_back(MoveCounter{std::move(claim)});
}

Time ClaimGoodUntil(const FailoverState& state, const FailoverConfig& config) {
  // However slow the claims are: at the moment when a move is seen to succeed nothing is in doubt.
  const Duration sure = ClaimsLease(state, config) / kMovesPerLease * kThirdsUntilDoubt;
  return std::max(std::min(state.last_write_began + sure, state.step_down_by),
                  state.last_write_confirmed);
}

Claim NewClaim(const TakeClaim& take, Term clock, const Endpoint& endpoint) {
  const Term term = TermAfter(clock, take.above.Next());
  Claim claim{take.number, term, endpoint, 0, false};
  claim.lease = take.lease;
  claim.ended = take.ended;
  return claim;
}

Claim ClosedClaim(const FailoverState& state, bool over) {
  Claim claim = *state.newest;
  claim.counter = state.last_counter_written + 1;
  claim.closed = true;
  claim.over = over;
  claim.ended = state.ended;
  return claim;
}

}  // namespace ddprun
