#include "rendezvous/core/succession/succession.h"

#include <algorithm>

#include "common/overload.h"
#include "rendezvous/core/recovery.h"

namespace ddprun {
namespace {

constexpr std::size_t kMostTurns = 6;
constexpr std::uint64_t kTermsToDrawFrom = std::uint64_t{1} << 17;  // 8 s of the clock's.

struct SuccessionTurn {
  SuccessionState& state;
  const SuccessionConfig& config;
  Time now;
  std::vector<SuccessionEffect> effects;

  void Say(NoticeLevel level, std::string text) {
    effects.push_back(Notice{level, std::move(text)});
  }
};

Duration LeaseNow(const SuccessionState& state, const SuccessionConfig& config) {
  const Duration claimed = state.newest ? state.newest->lease : Duration{0};
  return std::max({config.lease, state.lease, claimed});
}

// What others count by: a holder's own lease is nobody's until its claim says so.
Duration ClaimsLease(const SuccessionState& state, const SuccessionConfig& config) {
  return std::max(config.lease, state.told_lease);
}

// A holder lets go then: in a directory a lease after the first write that could have failed.
Time LimitOf(const SuccessionState& state, const SuccessionConfig& config) {
  const Duration patience = ClaimsLease(state, config) / kMovesPerLease * config.thirds_to_let_go;
  return std::min(state.kept + patience, state.shorter);
}

bool Missed(const SuccessionState& state, const SuccessionConfig& config, Time now) {
  return now >= state.heard + LeaseNow(state, config);
}

void BecomeFollower(SuccessionTurn& turn) {
  turn.state.phase = SuccessionPhase::kFollowing;
  turn.state.busy = false;
  turn.state.next = turn.now;
  turn.state.still_since.reset();
  turn.state.heard = turn.now;
  turn.state.told_missing = false;
  turn.state.told_refused = false;
  turn.state.told_unreadable = false;
  turn.state.following.reset();
}

void LetGo(SuccessionTurn& turn, std::string text) {
  turn.effects.push_back(StepDown{std::move(text), ClosedClaim(turn.state, false)});
  BecomeFollower(turn);
}

void Take(SuccessionTurn& turn) {
  SuccessionState& state = turn.state;
  state.phase = SuccessionPhase::kTaking;
  const std::uint64_t last = state.newest ? state.newest->number : 0;
  // Only to a stranger what is over is an old run's: it was not of that run.
  const bool known = state.ever_heard || state.own == last;
  const bool takes_over = last > 0 && (!state.newest->over || known);
  turn.effects.push_back(TakeClaim{last + 1, state.highest, takes_over,
                                   state.newest ? state.newest->ended : std::vector<EndedRun>()});
}

void GoTo(SuccessionTurn& turn, const Endpoint& endpoint) {
  if (turn.state.following != endpoint) {
    turn.state.following = endpoint;
    turn.effects.push_back(Follow{endpoint});
  }
}

// Between two looks for a successor. Candidates look at different moments, and nodes of a list that
// have met try again one after the other.
Duration UntilNextLook(const SuccessionState& state, const SuccessionConfig& config) {
  const Duration step = LeaseNow(state, config) / kReadsPerLeaseWhenMissed;
  const auto turns = static_cast<int>(std::min(config.place, kMostTurns));
  return step + step / 3 * turns;
}

// Whether the newest claim is free for this node, at the moment when the read of it began.
bool IsFree(const SuccessionState& state, const SuccessionConfig& config, Time began, Time now) {
  const Claim& claim = *state.newest;
  if (state.own == claim.number) {
    return true;
  }
  if (claim.closed) {
    return state.ever_heard || config.may_begin;
  }
  return began >= *state.still_since + kLeasesUntilStale * LeaseNow(state, config) &&
         Missed(state, config, now);
}

// What an agent's calls tell elsewhere.
void HearByClaim(SuccessionTurn& turn, const std::optional<Claim>& found) {
  SuccessionState& state = turn.state;
  if (!turn.config.listens && found && state.newest && found->term == state.newest->term &&
      found->counter > state.newest->counter) {
    state.heard = turn.now;
    state.told_missing = false;
  }
}

void OnRead(SuccessionTurn& turn, const DirectoryRead& read) {
  SuccessionState& state = turn.state;
  if (state.phase != SuccessionPhase::kFollowing) {
    return;
  }
  const Duration lease = LeaseNow(state, turn.config);
  state.busy = false;
  state.told_unreadable = false;
  HearByClaim(turn, read.newest);
  const bool missed = Missed(state, turn.config, turn.now);
  state.next = turn.now + (missed ? UntilNextLook(state, turn.config) : lease / kMovesPerLease);
  if (!read.newest && (turn.config.listed || !state.newest)) {
    if (turn.config.may_begin) {
      Take(turn);
    } else {
      GoTo(turn, turn.config.given);
    }
    return;
  }
  // A directory that shows no claim any more shows what was long ago: nothing is known to have
  // moved.
  const Claim found = read.newest ? *read.newest : *state.newest;
  // On a list one of a higher number may turn out not to have been made: then the one that was has
  // the same number, whatever its term; or its maker is gone, and so it stays the older one.
  const bool proved = !state.newest || state.newest->counter > 0 || !missed;
  if (proved && state.newest && found.number < state.newest->number &&
      found.term < state.newest->term) {
    return;  // A stale listing.
  }
  const bool is_new = !state.newest || found.term != state.newest->term;
  // Of what is read here and there, one may be older than the other.
  const bool moved = !is_new && found.counter > state.newest->counter;
  if (is_new || !state.still_since || moved) {
    state.still_since = turn.now;
  }
  if (is_new) {
    state.highest = state.highest_heard;
    state.heard = turn.now;  // It has a lease to answer.
    state.told_missing = false;
    state.told_refused = false;
  }
  const std::uint64_t counter =
      is_new ? found.counter : std::max(found.counter, state.newest->counter);
  state.newest = found;
  state.newest->counter = counter;
  state.highest = std::max(state.highest, found.term);
  if (turn.config.may_serve && IsFree(state, turn.config, read.began, turn.now)) {
    Take(turn);
    return;
  }
  GoTo(turn, found.closed ? turn.config.given : found.endpoint);
  if (missed && !is_new && !found.closed && !state.told_missing) {
    state.told_missing = true;
    turn.Say(NoticeLevel::kWarning,
             "the server at " + ToString(found.endpoint) +
                 " does not answer; a node takes its part over once its claim in " +
                 turn.config.claims + " has stood still for " +
                 FormatDuration(kLeasesUntilStale * lease));
  }
}

void OnUnreadable(SuccessionTurn& turn, const DirectoryUnreadable& unreadable) {
  SuccessionState& state = turn.state;
  if (state.phase != SuccessionPhase::kFollowing) {
    return;
  }
  state.busy = false;
  state.still_since.reset();
  const Duration lease = LeaseNow(state, turn.config);
  state.next = turn.now + lease / (state.following ? kMovesPerLease : kReadsPerLeaseWhenMissed);
  const bool starting = !state.following && turn.now < state.begun + lease;
  if (!state.told_unreadable && !starting) {
    state.told_unreadable = true;
    turn.Say(NoticeLevel::kWarning, turn.config.claims + " cannot be read: " + unreadable.text +
                                        "; while that is so this node takes nothing over");
  }
}

// Whatever comes of it, the claim that stood still has not moved by it.
void OnContested(SuccessionTurn& turn) {
  SuccessionState& state = turn.state;
  if (state.phase == SuccessionPhase::kFollowing) {
    state.busy = false;
    state.next = turn.now + UntilNextLook(state, turn.config);
  }
}

void OnHeard(SuccessionTurn& turn, const ServerHeard& heard) {
  SuccessionState& state = turn.state;
  if (heard.term < state.highest) {
    return;  // A server whose time is over.
  }
  state.highest = state.highest_heard = heard.term;
  state.heard = turn.now;
  state.ever_heard = true;
  state.told_missing = false;
  state.lease = heard.lease;
}

void Keep(SuccessionTurn& turn, Time began) {
  turn.state.kept = began;
  if (began >= turn.state.woke) {  // Else the answer is as old as the sleep.
    turn.state.renewed = turn.now;
  }
}

void OnClaimed(SuccessionTurn& turn, const Claimed& claimed) {
  SuccessionState& state = turn.state;
  state.phase = SuccessionPhase::kServing;
  state.newest = claimed.claim;
  state.own = claimed.claim.number;
  state.ended = claimed.claim.ended;
  state.tried = claimed.claim.counter;
  state.told_lease = claimed.claim.lease;
  state.shorter = Time::max();
  state.highest = std::max(state.highest, claimed.claim.term);
  state.highest_heard = state.highest;
  Keep(turn, claimed.began);
  state.busy = false;
  state.next = turn.now + ClaimsLease(state, turn.config) / kMovesPerLease;
}

// The next look finds whose claim was made, or that none was: two met, and each had a share, or the
// others did not back this one yet. The old claim has not moved by it.
void OnNotClaimed(SuccessionTurn& turn, const NotClaimed& refused) {
  SuccessionState& state = turn.state;
  state.phase = SuccessionPhase::kFollowing;
  state.busy = false;
  state.next = turn.now + UntilNextLook(state, turn.config);
  if (!refused.was_first && !state.told_refused) {
    state.told_refused = true;
    turn.Say(NoticeLevel::kWarning,
             "this node cannot take the server's part over: " + refused.text + "; trying again");
  }
}

void OnMoved(SuccessionTurn& turn, const CounterMoved& moved) {
  SuccessionState& state = turn.state;
  if (state.phase != SuccessionPhase::kServing || moved.claim.number != state.own) {
    return;
  }
  state.busy = false;
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
  state.told_lease = moved.claim.lease;
  state.shorter = Time::max();
  const bool told_all = moved.claim.ended == state.ended;
  state.next =
      turn.now + (told_all ? ClaimsLease(state, turn.config) / kMovesPerLease : Duration{0});
}

void OnStuck(SuccessionTurn& turn, const CounterStuck& stuck) {
  SuccessionState& state = turn.state;
  if (state.phase != SuccessionPhase::kServing || stuck.number != state.own) {
    return;
  }
  const Duration lease = ClaimsLease(state, turn.config);
  state.busy = false;
  state.next = turn.now + lease / kReadsPerLeaseWhenMissed;
  if (!state.told_unreadable) {
    state.told_unreadable = true;
    turn.Say(NoticeLevel::kWarning,
             "the claim in " + turn.config.claims + " cannot be written: " + stuck.text +
                 "; this server steps down when that lasts " + FormatDuration(lease));
  }
}

// Something happens every third of a lease. Where nothing did, this process stood still: that is no
// silence of the server's.
void ForgiveStandingStill(SuccessionTurn& turn) {
  SuccessionState& state = turn.state;
  if (turn.now > state.stepped + LeaseNow(state, turn.config) / kMovesPerLease + kLateTick) {
    state.heard = turn.now;
    state.woke = turn.now;
  }
  state.stepped = turn.now;
}

void OnTick(SuccessionTurn& turn) {
  SuccessionState& state = turn.state;
  if (state.phase == SuccessionPhase::kServing && turn.now >= LimitOf(state, turn.config)) {
    LetGo(turn, "the claim in " + turn.config.claims + " could not be written for " +
                    FormatDuration(turn.now - state.kept));
  }
  if (state.phase == SuccessionPhase::kTaking || state.busy || turn.now < state.next) {
    return;
  }
  state.busy = true;
  if (state.phase == SuccessionPhase::kServing) {
    Claim claim = *state.newest;
    claim.counter = ++state.tried;
    claim.lease = std::max(turn.config.lease, state.lease);
    const Duration patience = claim.lease / kMovesPerLease * turn.config.thirds_to_let_go;
    state.shorter = std::min(state.shorter, turn.now + patience);
    claim.ended = state.ended;
    turn.effects.push_back(MoveCounter{std::move(claim)});
  } else {
    turn.effects.push_back(ReadDirectory{});
  }
}

}  // namespace

std::vector<SuccessionEffect> Step(SuccessionState& state, const SuccessionConfig& config,
                                   const SuccessionEvent& event, Time now) {
  SuccessionTurn turn{state, config, now, {}};
  ForgiveStandingStill(turn);
  std::visit(Overload{
                 [&](const DirectoryRead& read) { OnRead(turn, read); },
                 [&](const DirectoryUnreadable& unreadable) { OnUnreadable(turn, unreadable); },
                 [&](const ClaimsContested&) { OnContested(turn); },
                 [&](const ServerHeard& heard) { OnHeard(turn, heard); },
                 [&](const LaterTermHeard& later) {
                   if (state.phase == SuccessionPhase::kServing && later.term > state.highest) {
                     state.highest = state.highest_heard = later.term;
                     LetGo(turn, "a node has heard a later server than this one");
                   }
                 },
                 [&](const Claimed& claimed) { OnClaimed(turn, claimed); },
                 [&](const NotClaimed& refused) { OnNotClaimed(turn, refused); },
                 [&](const CounterMoved& moved) { OnMoved(turn, moved); },
                 [&](const CounterStuck& stuck) { OnStuck(turn, stuck); },
                 [&](const LeaseSet& set) { state.lease = set.lease; },
                 [&](const RunsEnded& runs) {
                   state.ended = runs.ended;
                   state.next = std::min(state.next, now);
                   OnTick(turn);
                 },
                 [&](const SuccessionTick&) { OnTick(turn); },
             },
             event);
  return std::move(turn.effects);
}

std::optional<Time> NextWake(const SuccessionState& state, const SuccessionConfig& config) {
  std::optional<Time> wake;
  if (state.phase != SuccessionPhase::kTaking) {
    wake = state.busy ? state.stepped + LeaseNow(state, config) / kMovesPerLease : state.next;
  }
  if (state.phase == SuccessionPhase::kServing) {
    const Time limit = LimitOf(state, config);
    wake = wake ? std::min(*wake, limit) : limit;
  }
  return wake;
}

Time ClaimGoodUntil(const SuccessionState& state, const SuccessionConfig& config) {
  // However slow the claims are: at the moment when a move is seen to succeed nothing is in doubt.
  const Duration sure = ClaimsLease(state, config) / kMovesPerLease * kThirdsUntilDoubt;
  return std::max(std::min(state.kept + sure, state.shorter), state.renewed);
}

Claim NewClaim(const TakeClaim& take, const SuccessionConfig& config, Term clock,
               std::uint64_t seed, const Endpoint& endpoint) {
  // Where witnesses have forgotten a reign its successor knows no better than that one did: names
  // of reigns must differ all the same.
  const Term drawn{take.above.value + 1 + seed % kTermsToDrawFrom};
  const Term term = ReignAfter(clock, drawn);
  // Witnesses forget when all of them start anew; numbers grow all the same.
  const bool first_of_list = config.listed && take.number == 1;
  Claim claim{first_of_list ? term.value : take.number, term, endpoint, 0, false};
  claim.ended = take.ended;
  return claim;
}

Claim ClosedClaim(const SuccessionState& state, bool over) {
  Claim claim = *state.newest;
  claim.counter = state.tried + 1;
  claim.closed = true;
  claim.over = over;
  claim.ended = state.ended;
  return claim;
}

void BeginSuccession(SuccessionState& state, Time now) {
  state.begun = now;
  state.heard = now;
  state.next = now;
  state.stepped = now;
}

}  // namespace ddprun
