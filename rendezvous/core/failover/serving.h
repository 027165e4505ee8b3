// The half of failover.h's table that is a holder's: keeping its claim, and letting go of it.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "rendezvous/core/failover/state.h"

namespace ddprun {

struct FailoverTurn {
  FailoverState& state;
  const FailoverConfig& config;
  Time now;
  std::vector<FailoverEffect> effects;

  void Say(NoticeLevel level, std::string text) {
    effects.push_back(Notice{level, std::move(text)});
  }
};

// ---- Of either half ----
// The longest that is known of: what this node tells, or counts by.
Duration LeaseNow(const FailoverState& state, const FailoverConfig& config);
// The claims have answered what was asked of them last.
void NoteClaimsAnswer(FailoverTurn& turn);
void BecomeFollower(FailoverTurn& turn);

// ---- Holding a claim ----
// The holder lets go then, unless its counter moves before.
Time LimitOf(const FailoverState& state, const FailoverConfig& config);
void OnClaimed(FailoverTurn& turn, const Claimed& claimed);
void OnMoved(FailoverTurn& turn, const CounterMoved& moved);
void OnStuck(FailoverTurn& turn, const CounterStuck& stuck);
void LetGo(FailoverTurn& turn, std::string text);
void LetGoInTime(FailoverTurn& turn);
void MoveOn(FailoverTurn& turn);  // Its counter.

// Serving: no other node can have a newer claim before then. Not as long as the holder itself goes
// on serving, since a world formed in doubt would only be thrown away.
Time ClaimGoodUntil(const FailoverState& state, const FailoverConfig& config);

// The claim to make, of a reign that begins at `endpoint` now: numbers and terms grow. `clock`: the
// term that this machine's clock gives.
Claim NewClaim(const TakeClaim& take, Term clock, const Endpoint& endpoint);

// The claim of the holder that gives it up.
Claim ClosedClaim(const FailoverState& state, bool over);

}  // namespace ddprun
