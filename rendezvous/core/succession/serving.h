// The half of succession.h's table that is a holder's: keeping its claim, and letting go of it.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "rendezvous/core/succession/state.h"

namespace ddprun {

struct SuccessionTurn {
  SuccessionState& state;
  const SuccessionConfig& config;
  Time now;
  std::vector<SuccessionEffect> effects;

  void Say(NoticeLevel level, std::string text) {
    effects.push_back(Notice{level, std::move(text)});
  }
};

// ---- Of either half ----
// The longest that is known of: what this node tells, or counts by.
Duration LeaseNow(const SuccessionState& state, const SuccessionConfig& config);
// The claims have answered what was asked of them last.
void NoteClaimsAnswer(SuccessionTurn& turn);
void BecomeFollower(SuccessionTurn& turn);

// ---- Holding a claim ----
// The holder lets go then, unless its counter moves before.
Time LimitOf(const SuccessionState& state, const SuccessionConfig& config);
void OnClaimed(SuccessionTurn& turn, const Claimed& claimed);
void OnMoved(SuccessionTurn& turn, const CounterMoved& moved);
void OnStuck(SuccessionTurn& turn, const CounterStuck& stuck);
void LetGo(SuccessionTurn& turn, std::string text);
void LetGoInTime(SuccessionTurn& turn);
void MoveOn(SuccessionTurn& turn);  // Its counter.

// Serving: no other node can have a newer claim before then. Not as long as the holder itself goes
// on serving, since a world formed in doubt would only be thrown away.
Time ClaimGoodUntil(const SuccessionState& state, const SuccessionConfig& config);

// The claim to make, of a reign that begins at `endpoint` now: numbers and terms grow. `clock`: the
// term that this machine's clock gives.
Claim NewClaim(const TakeClaim& take, Term clock, const Endpoint& endpoint);

// The claim of the holder that gives it up.
Claim ClosedClaim(const SuccessionState& state, bool over);

}  // namespace ddprun
