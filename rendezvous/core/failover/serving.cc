#include "rendezvous/core/failover/serving.h"

#include <algorithm>

#include "rendezvous/core/recovery.h"

namespace ddprun {
namespace {

// What others count by: a holder's own lease is nobody's until its claim says so.
Duration ClaimsLease(const FailoverState& state, const FailoverConfig& config) {
  return std::max(config.lease, state.published_lease);
}

void Keep(FailoverTurn& turn, Time began) {
  turn.state.last_write_began = began;
  if (began >= turn.state.resumed_at) {  // Else the answer is as old as the sleep.
    turn.state.last_write_confirmed = turn.now;
  }
}

}  // namespace

Duration LeaseNow(const FailoverState& state, const FailoverConfig& config) {
  const Duration claimed = state.newest ? state.newest->lease : Duration{0};
  return std::max({config.lease, state.lease, claimed, Value(state.seen), Value(state.lateness)});
}

void NoteClaimsAnswer(FailoverTurn& turn) {
  NoteLate(turn.state.lateness, turn.now - turn.state.asked, kClaimCallsPerLease, turn.now);
}

void BecomeFollower(FailoverTurn& turn) {
  turn.state.phase = FailoverPhase::kFollowing;
  turn.state.busy = false;
  turn.state.next = turn.now;
  turn.state.still_since.reset();
  turn.state.heard = turn.now;
  turn.state.failed = false;
  turn.state.told_missing = false;
  turn.state.told_refused = false;
  turn.state.told_unreadable = false;
  turn.state.following.reset();
}

// A holder lets go then: a lease after the first write that could have failed.
Time LimitOf(const FailoverState& state, const FailoverConfig& config) {
  const Duration patience = ClaimsLease(state, config) / kMovesPerLease * kThirdsToLetGo;
  return std::min(state.last_write_began + patience, state.step_down_by);
}

void LetGo(FailoverTurn& turn, std::string text) {
  turn.effects.push_back(StepDown{std::move(text), ClosedClaim(turn.state, false)});
  BecomeFollower(turn);
}

void LetGoInTime(FailoverTurn& turn) {
  const FailoverState& state = turn.state;
  if (state.phase == FailoverPhase::kServing && turn.now >= LimitOf(state, turn.config)) {
    LetGo(turn, "the claim in " + turn.config.claims + " could not be written for " +
                    FormatDuration(turn.now - state.last_write_began));
  }
}

void OnClaimed(FailoverTurn& turn, const Claimed& claimed) {
  FailoverState& state = turn.state;
  state.phase = FailoverPhase::kServing;
  state.newest = claimed.claim;
  state.was_open = true;
  state.own = claimed.claim.term;
  state.ended = claimed.claim.ended;
  state.last_counter_written = claimed.claim.counter;
  state.published_lease = claimed.claim.lease;
  state.step_down_by = Time::max();
  state.highest = std::max(state.highest, claimed.claim.term);
  Keep(turn, claimed.began);
  state.busy = false;
  state.next = turn.now + ClaimsLease(state, turn.config) / kMovesPerLease;
}

void OnMoved(FailoverTurn& turn, const CounterMoved& moved) {
  FailoverState& state = turn.state;
  if (state.phase != FailoverPhase::kServing || moved.claim.term != state.own) {
    return;
  }
  state.busy = false;
  NoteClaimsAnswer(turn);
  if (moved.superseded) {
    LetGo(turn, "another node has taken the server's part over");
    return;
  }
  if (state.told_unreadable) {
    turn.Say(NoticeLevel::kInfo, turn.config.claims + " can be written again");
  }
  state.told_unreadable = false;
  Keep(turn, moved.began);
  state.newest = moved.claim;
  state.published_lease = moved.claim.lease;
  state.step_down_by = Time::max();
  const bool told_all = moved.claim.ended == state.ended;
  state.next =
      turn.now + (told_all ? ClaimsLease(state, turn.config) / kMovesPerLease : Duration{0});
}

void OnStuck(FailoverTurn& turn, const CounterStuck& stuck) {
  FailoverState& state = turn.state;
  if (state.phase != FailoverPhase::kServing || stuck.term != state.own) {
    return;
  }
  const Duration lease = ClaimsLease(state, turn.config);
  state.busy = false;
  NoteClaimsAnswer(turn);
  state.next = turn.now + lease / kReadsPerLeaseWhenMissed;
  if (!state.told_unreadable) {
    state.told_unreadable = true;
    turn.Say(NoticeLevel::kWarning,
             "the claim in " + turn.config.claims + " cannot be written: " + stuck.text +
                 "; this server steps down when that lasts " + FormatDuration(lease));
  }
}

void MoveOn(FailoverTurn& turn) {
  FailoverState& state = turn.state;
  Claim claim = *state.newest;
  claim.counter = ++state.last_counter_written;
  claim.lease = std::max({turn.config.lease, state.lease, Value(state.lateness)});
  const Duration patience = claim.lease / kMovesPerLease * kThirdsToLetGo;
  state.step_down_by = std::min(state.step_down_by, turn.now + patience);
  claim.ended = state.ended;
  turn.effects.push_back(MoveCounter{std::move(claim)});
}

Time ClaimGoodUntil(const FailoverState& state, const FailoverConfig& config) {
  // However slow the claims are: at the moment when a move is seen to succeed nothing is in doubt.
  const Duration sure = ClaimsLease(state, config) / kMovesPerLease * kThirdsUntilDoubt;
  return std::max(std::min(state.last_write_began + sure, state.step_down_by),
                  state.last_write_confirmed);
}

Claim NewClaim(const TakeClaim& take, Term clock, const Endpoint& endpoint) {
  const Term term = ReignAfter(clock, take.above.Next());
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
