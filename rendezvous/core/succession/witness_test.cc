#include "rendezvous/core/succession/witness.h"

#include <gtest/gtest.h>

namespace ddprun {
namespace {

using std::chrono_literals::operator""s;

constexpr Duration kLease{3'000};
const Time kStart{1000s};

Claim ClaimOf(std::uint64_t number, const char* host = "a", std::uint64_t counter = 0) {
  return {number, Term{100 + number}, {host, 29400}, counter, false};
}

WitnessRequest Ask(WitnessVerb verb, const Claim& claim = {}) {
  return {verb, claim, false, kLease, 7};
}

TEST(Witness, KnowsNothingForTwoLeasesAfterItsStart) {
  Witness witness(kStart);
  EXPECT_TRUE(witness.Answer(Ask(WitnessVerb::kLook), kStart).fresh);
  EXPECT_FALSE(witness.Answer(Ask(WitnessVerb::kBack, ClaimOf(1)), kStart + 5s).accepted);
  EXPECT_FALSE(witness.Answer(Ask(WitnessVerb::kLook), kStart + 6s).fresh);
  EXPECT_TRUE(witness.Answer(Ask(WitnessVerb::kBack, ClaimOf(1)), kStart + 6s).accepted);
}

// Else two that know nothing would begin a run beside workers that a third one remembers.
TEST(Witness, WithAFenceItKnowsNothingUntilForgottenWorkersHaveBeenKilled) {
  Witness witness(kStart, 30s);
  const Time known = kStart + 6s + 30s + 1s;
  EXPECT_TRUE(witness.Answer(Ask(WitnessVerb::kLook), known - Duration{1}).fresh);
  EXPECT_FALSE(witness.Answer(Ask(WitnessVerb::kLook), known).fresh);
  // Whom to back is a question of who may still serve.
  EXPECT_TRUE(witness.Answer(Ask(WitnessVerb::kBack, ClaimOf(1)), kStart + 6s).accepted);
}

TEST(Witness, BacksTheFirstAtOnceWhereEverybodyIsNewButOnlyOne) {
  Witness witness(kStart);
  WitnessRequest first = Ask(WitnessVerb::kBack, ClaimOf(1, "a"));
  first.everybody_new = true;
  EXPECT_TRUE(witness.Answer(first, kStart).accepted);
  EXPECT_TRUE(witness.Answer(first, kStart).accepted);  // Asked again.
  WitnessRequest second = Ask(WitnessVerb::kBack, ClaimOf(1, "b"));
  second.everybody_new = true;
  const WitnessAnswer refused = witness.Answer(second, kStart);
  EXPECT_FALSE(refused.accepted);
  EXPECT_EQ(refused.newest, ClaimOf(1, "a"));
}

// Who asks may have begun just now: how late others were it does not know.
TEST(Witness, ALongLeaseIsMeantWhereNobodyKnows) {
  Witness witness(kStart);
  WitnessRequest look = Ask(WitnessVerb::kLook);
  look.lease = kBaseLease;
  EXPECT_TRUE(witness.Answer(look, kStart + 2 * kLongLease - Duration{1}).fresh);
  EXPECT_FALSE(witness.Answer(look, kStart + 2 * kLongLease).fresh);
}

TEST(Witness, KeepsToAHolderForTheLeaseThatItsClaimTells) {
  Witness witness(kStart);
  const Time moved = kStart + 100s;
  Claim claim = ClaimOf(1, "a", 5);
  claim.lease = kLongLease;
  witness.Answer(Ask(WitnessVerb::kMove, claim), moved);
  WitnessRequest back = Ask(WitnessVerb::kBack, ClaimOf(2, "b"));
  back.lease = kBaseLease;
  EXPECT_FALSE(witness.Answer(back, moved + kLongLease - Duration{1}).accepted);
  EXPECT_TRUE(witness.Answer(back, moved + kLongLease).accepted);
}

TEST(Witness, KeepsToAHolderThatMovedWithinALease) {
  Witness witness(kStart);
  const Time later = kStart + 10s;
  EXPECT_TRUE(witness.Answer(Ask(WitnessVerb::kMove, ClaimOf(1, "a", 5)), later).accepted);
  EXPECT_FALSE(
      witness.Answer(Ask(WitnessVerb::kBack, ClaimOf(2, "b")), later + kLease - Duration{1})
          .accepted);
  EXPECT_TRUE(witness.Answer(Ask(WitnessVerb::kBack, ClaimOf(2, "b")), later + kLease).accepted);
  // The old holder is told; the released claim gives way to what was before.
  EXPECT_FALSE(
      witness.Answer(Ask(WitnessVerb::kMove, ClaimOf(1, "a", 6)), later + kLease).accepted);
  EXPECT_EQ(witness.Answer(Ask(WitnessVerb::kRelease, ClaimOf(2, "b")), later + kLease).newest,
            ClaimOf(1, "a", 5));
  EXPECT_TRUE(witness.Answer(Ask(WitnessVerb::kMove, ClaimOf(1, "a", 6)), later + kLease).accepted);
}

// Candidates that fail in turn would keep a dead holder's claim for ever (list seed 705915576131).
TEST(Witness, WhatWasReleasedHasNotMovedTheClaimBefore) {
  Witness witness(kStart);
  const Time later = kStart + 10s;
  ASSERT_TRUE(witness.Answer(Ask(WitnessVerb::kMove, ClaimOf(1, "a", 5)), later).accepted);
  const Time stale = later + 2 * kLease;
  ASSERT_TRUE(witness.Answer(Ask(WitnessVerb::kBack, ClaimOf(2, "b")), stale).accepted);
  witness.Answer(Ask(WitnessVerb::kRelease, ClaimOf(2, "b")), stale);
  EXPECT_TRUE(witness.Answer(Ask(WitnessVerb::kBack, ClaimOf(2, "c")), stale).accepted);
}

// The word that releases it may be lost; a holder that never moved lets go sooner.
TEST(Witness, AClaimThatNeverMovedGivesWayToAnotherOfItsNumberAfterTwoLeases) {
  Witness witness(kStart);
  const Time later = kStart + 10s;
  ASSERT_TRUE(witness.Answer(Ask(WitnessVerb::kBack, ClaimOf(2, "b")), later).accepted);
  const Time gone = later + 2 * kLease;
  EXPECT_FALSE(
      witness.Answer(Ask(WitnessVerb::kBack, ClaimOf(2, "c")), gone - Duration{1}).accepted);
  EXPECT_TRUE(witness.Answer(Ask(WitnessVerb::kBack, ClaimOf(2, "c")), gone).accepted);
}

TEST(Witness, AClaimThatHasMovedKeepsItsNumber) {
  Witness witness(kStart);
  const Time later = kStart + 10s;
  ASSERT_TRUE(witness.Answer(Ask(WitnessVerb::kMove, ClaimOf(2, "b", 1)), later).accepted);
  EXPECT_FALSE(
      witness.Answer(Ask(WitnessVerb::kBack, ClaimOf(2, "c")), later + 9 * kLease).accepted);
}

TEST(Witness, AClosedClaimIsReplacedAtOnceAndStaysClosed) {
  Witness witness(kStart);
  Claim closed = ClaimOf(1, "a", 5);
  closed.closed = closed.over = true;
  const Time later = kStart + 10s;
  ASSERT_TRUE(witness.Answer(Ask(WitnessVerb::kMove, closed), later).accepted);
  // What was sent before it and comes after it.
  const auto answer = witness.Answer(Ask(WitnessVerb::kMove, ClaimOf(1, "a", 4)), later);
  EXPECT_TRUE(answer.newest->closed);
  EXPECT_TRUE(answer.newest->over);
  EXPECT_EQ(answer.newest->counter, 5u);
  EXPECT_TRUE(witness.Answer(Ask(WitnessVerb::kBack, ClaimOf(2, "b")), later).accepted);
}

// Whatever the one who takes over had read: what was told before he was backed is in his claim.
TEST(Witness, WhoIsBackedLearnsHowRunsEnded) {
  Witness witness(kStart);
  const Time later = kStart + 10s;
  Claim known = ClaimOf(1, "a", 5);
  known.ended = {{"run", {7}, Finish{}}};
  ASSERT_TRUE(witness.Answer(Ask(WitnessVerb::kMove, known), later).accepted);
  // One that was sent before it.
  EXPECT_EQ(witness.Answer(Ask(WitnessVerb::kMove, ClaimOf(1, "a", 4)), later).newest, known);
  const WitnessRequest back = Ask(WitnessVerb::kBack, ClaimOf(2, "b"));
  const WitnessAnswer answer = witness.Answer(back, later + kLease);
  ASSERT_TRUE(answer.accepted);
  Ballot ballot(3, back);
  ballot.Add(0, answer);
  ballot.Add(1, {false, true, ClaimOf(2, "b")});
  EXPECT_EQ(ballot.Made()->ended, known.ended);
}

TEST(Witness, AClaimThatMovesWasMadeWhateverWasBackedHere) {
  Witness witness(kStart);
  const Time later = kStart + 10s;
  ASSERT_TRUE(witness.Answer(Ask(WitnessVerb::kBack, ClaimOf(2, "loser")), later).accepted);
  EXPECT_TRUE(witness.Answer(Ask(WitnessVerb::kMove, ClaimOf(2, "winner", 1)), later).accepted);
  EXPECT_EQ(witness.Answer(Ask(WitnessVerb::kRelease, ClaimOf(2, "loser")), later).newest,
            ClaimOf(2, "winner", 1));
}

Ballot BallotOf(WitnessVerb verb, const Claim& claim, const std::vector<WitnessAnswer>& answers,
                std::size_t listed = 3) {
  Ballot ballot(listed, Ask(verb, claim));
  for (std::size_t i = 0; i < answers.size(); ++i) {
    ballot.Add(i, answers[i]);
  }
  return ballot;
}

Ballot Look(const std::vector<WitnessAnswer>& answers) {
  return BallotOf(WitnessVerb::kLook, {}, answers);
}

// Its holder stood still while all others of the list were started anew.
TEST(Witness, AForgottenClaimIsNotClosedOverOneThatMoves) {
  Witness witness(kStart);
  const Time later = kStart + 10s;
  ASSERT_TRUE(witness.Answer(Ask(WitnessVerb::kMove, ClaimOf(7, "new", 1)), later).accepted);
  Claim forgotten{5, Term{1'000}, {"old", 29400}, 9, true};
  const WitnessAnswer answer = witness.Answer(Ask(WitnessVerb::kMove, forgotten), later);
  EXPECT_FALSE(answer.accepted);
  EXPECT_EQ(answer.newest, ClaimOf(7, "new", 1));
  EXPECT_TRUE(witness.Answer(Ask(WitnessVerb::kMove, forgotten), later + kLease).accepted);
}

// The guard's word and the last move of the holder that died.
TEST(Ballot, AClaimThatOneWitnessKnowsToBeClosedIsClosed) {
  Claim closed = ClaimOf(1, "a", 5);
  closed.closed = true;
  closed.left = Estate{"n1", {{7}}, {}};
  for (const std::uint64_t moved : {4u, 5u, 6u}) {
    const Claim open = ClaimOf(1, "a", moved);
    for (const auto& order : {std::pair(closed, open), std::pair(open, closed)}) {
      const auto newest = Look({{false, true, order.first}, {false, true, order.second}}).Newest();
      ASSERT_TRUE(newest && *newest);
      EXPECT_TRUE((*newest)->closed);
      EXPECT_EQ((*newest)->left, closed.left);
    }
  }
}

TEST(Ballot, WhatAMajorityKnowsIsTheNewestWhateverItsTerm) {
  const Claim forgotten{5, Term{1'000}, {"old", 29400}, 9, true};
  const Claim now = ClaimOf(7, "new", 1);
  const Claim moved = ClaimOf(7, "new", 2);
  EXPECT_EQ(*Look({{false, true, forgotten}, {false, true, now}, {false, true, moved}}).Newest(),
            moved);
  EXPECT_EQ(*Look({{false, true, forgotten}, {false, true, now}}).Newest(), forgotten);
}

TEST(Ballot, ReadsTheNewestOfAMajorityThatKnows) {
  const Ballot two = Look({{false, true, ClaimOf(1)}, {false, true, ClaimOf(2)}});
  EXPECT_FALSE(two.Decided());  // The third may know of one of them too.
  EXPECT_EQ(*two.Newest(), ClaimOf(2));
  EXPECT_TRUE(Look({{false, true, ClaimOf(2)}, {false, true, ClaimOf(2, "a", 1)}}).Decided());
  EXPECT_TRUE(Look({{false, true, ClaimOf(2)}, {false, true, {}}}).Decided());
  const Ballot one = Look({{false, true, ClaimOf(1)}});
  EXPECT_FALSE(one.Decided());
  EXPECT_EQ(one.Newest().error().message, "1 of the 3 nodes of the list answer, and it takes 2");
  const Ballot fresh = Look({{false, true, {}}, {true, true, {}}, {true, true, {}}});
  ASSERT_FALSE(fresh.Newest());
  EXPECT_NE(fresh.Newest().error().message.find("up for long enough"), std::string::npos);
  // To follow a claim it is enough to hear of it.
  EXPECT_EQ(*Look({{true, true, ClaimOf(1)}, {true, true, {}}}).Newest(), ClaimOf(1));
}

TEST(Ballot, NobodyHoldsAClaimWhereEverybodyIsNew) {
  const WitnessAnswer fresh{true, true, {}};
  EXPECT_FALSE(Look({fresh, fresh}).Newest());
  const Ballot all = Look({fresh, fresh, fresh});
  EXPECT_TRUE(all.EverybodyNew());
  EXPECT_EQ(*all.Newest(), std::nullopt);
  EXPECT_FALSE(Look({fresh, fresh, {true, true, ClaimOf(1)}}).EverybodyNew());
}

TEST(Ballot, OfOneNumberTheOneThatMovesIsMade) {
  const WitnessAnswer loser{false, true, ClaimOf(2, "b")};
  EXPECT_FALSE(Look({{false, true, ClaimOf(2, "a")}, loser}).Newest());
  EXPECT_EQ(*Look({{false, true, ClaimOf(2, "a", 1)}, loser}).Newest(), ClaimOf(2, "a", 1));
  EXPECT_EQ(*Look({loser, {false, true, ClaimOf(2, "a", 1)}}).Newest(), ClaimOf(2, "a", 1));
}

TEST(Ballot, AMajorityMakesAClaimAndKeepsIt) {
  const WitnessAnswer yes{false, true, ClaimOf(2, "a")};
  const WitnessAnswer no{false, false, ClaimOf(2, "b")};
  const WitnessAnswer busy{false, false, ClaimOf(1, "c")};
  const auto back = [](const std::vector<WitnessAnswer>& answers) {
    return BallotOf(WitnessVerb::kBack, ClaimOf(2, "a"), answers);
  };
  EXPECT_TRUE(back({yes, no, yes}).Made());
  EXPECT_EQ(back({yes, no, no}).Made().error().kind, ErrorKind::kRefused);
  EXPECT_EQ(back({yes, busy, busy}).Made().error().kind, ErrorKind::kUnavailable);
  EXPECT_TRUE(back({no, no}).Decided());
  EXPECT_FALSE(back({yes, no}).Decided());

  const WitnessAnswer newer{false, false, ClaimOf(3, "b")};
  const auto move = [](const std::vector<WitnessAnswer>& answers) {
    return BallotOf(WitnessVerb::kMove, ClaimOf(2, "a", 4), answers);
  };
  EXPECT_FALSE(*move({yes, yes}).Moved());
  EXPECT_FALSE(*move({yes, newer, yes}).Moved());  // Cannot have been made.
  EXPECT_EQ(move({yes, newer, yes}).Strays().size(), 1u);
  EXPECT_EQ(move({yes, newer, yes}).Strays().front().first, 1u);
  EXPECT_TRUE(*move({yes, newer, newer}).Moved());
  EXPECT_TRUE(*move({yes, newer}).Moved());
  EXPECT_FALSE(move({yes}).Moved());
  EXPECT_TRUE(move({yes, newer, newer}).Strays().empty());
}

}  // namespace
}  // namespace ddprun
