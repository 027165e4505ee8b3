// The half of failover.h's table that is a holder's: keeping its claim, and letting go of it.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "rendezvous/core/failover/state.h"

namespace ddprun {

struct FailoverStepContext {
  FailoverState& state;
  const FailoverConfig& config;
  Time now;
  std::vector<FailoverEffect> effects;

  void Say(NoticeLevel level, std::string text) {
    effects.push_back(Notice{level, std::move(text)});
  }
};

// ---- Of either half ----
// The longest lease that is known: this node reports it, or counts by it.
Duration LeaseNow(const FailoverState& state, const FailoverConfig& config);
// The claims have answered what was asked of them last.
void NoteClaimsAnswer(FailoverStepContext& step);
void BecomeFollower(FailoverStepContext& step);

// ---- Holding a claim ----
// The holder lets go then, unless its counter moves before.
Time LimitOf(const FailoverState& state, const FailoverConfig& config);
void OnClaimed(FailoverStepContext& step, const Claimed& claimed);
void OnMoved(FailoverStepContext& step, const CounterMoved& moved);
void OnStuck(FailoverStepContext& step, const CounterStuck& stuck);
void LetGo(FailoverStepContext& step, std::string text);
void LetGoInTime(FailoverStepContext& step);
void MoveOn(FailoverStepContext& step);  // Its counter.

// Serving: no other node can have a newer claim before then. Not as long as the holder itself goes
// on serving, since a world formed in doubt would only be thrown away.
Time ClaimGoodUntil(const FailoverState& state, const FailoverConfig& config);

// The claim to make, of a term that begins at `endpoint` now: numbers and terms grow. `clock`: the
// term that this machine's clock gives.
Claim NewClaim(const TakeClaim& take, Term clock, const Endpoint& endpoint);

// The claim of the holder that gives it up.
Claim ClosedClaim(const FailoverState& state, bool over);

}  // namespace ddprun
