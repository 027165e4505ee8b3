#include "rendezvous/core/succession.h"

#include <gtest/gtest.h>

#include <string>
#include <variant>

namespace ddprun {
namespace {

using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;

Time At(Duration since_start) {
  return Time{std::chrono::seconds(1'000) + since_start};
}

Claim ClaimOf(std::uint64_t number, std::uint64_t counter) {
  return {number, Term{100 * number}, {"n" + std::to_string(number), 29400}, counter, false};
}

// One node's succession; every event is followed by what the driver would ask.
struct Node {
  SuccessionState state;
  SuccessionConfig config;
  std::vector<SuccessionEffect> effects;  // Of the last event.

  explicit Node(bool may_begin) {
    config.may_begin = may_begin;
    config.given = {"n1", 29400};
    BeginSuccession(state, At(0s));
  }
  void Feed(const SuccessionEvent& event, Time now) { effects = Step(state, config, event, now); }
  void Tick(Time now) { Feed(SuccessionTick{}, now); }
  // A read that takes no time.
  void Read(std::optional<Claim> newest, Time now) {
    Tick(now);
    EXPECT_TRUE(Has<ReadDirectory>()) << "nothing was to be read";
    Feed(DirectoryRead{now, std::move(newest)}, now);
  }
  void Heard(Term term, Time now) { Feed(ServerHeard{term, 3s}, now); }
  void Serve(std::uint64_t number, Time now) {
    Feed(Claimed{now, ClaimOf(number, 0)}, now);
    ASSERT_EQ(state.phase, SuccessionPhase::kServing);
  }
  // A write that takes no time.
  void Move(Time now, bool superseded = false) {
    Tick(now);
    ASSERT_TRUE(Has<MoveCounter>()) << "nothing was to be written";
    Feed(CounterMoved{now, Get<MoveCounter>().claim, superseded}, now);
  }

  template <class T>
  bool Has() const {
    for (const SuccessionEffect& effect : effects) {
      if (std::holds_alternative<T>(effect)) {
        return true;
      }
    }
    return false;
  }
  template <class T>
  const T& Get() const {
    for (const SuccessionEffect& effect : effects) {
      if (const T* const found = std::get_if<T>(&effect)) {
        return *found;
      }
    }
    static const T kNone{};
    ADD_FAILURE() << "no such effect";
    return kNone;
  }
  // Reads as often as it wants to until `end`, and finds this; true: it wants to take over.
  bool ReadUntil(Time end, const std::optional<Claim>& newest) {
    for (auto wake = NextWake(state, config); wake && *wake <= end;
         wake = NextWake(state, config)) {
      Read(newest, *wake);
      if (Has<TakeClaim>()) {
        return true;
      }
    }
    return false;
  }
};

// A follower of claim 1 that has heard its server once.
Node Follower() {
  Node node(false);
  node.Read(ClaimOf(1, 5), At(0s));
  node.Heard(Term{100}, At(0s));
  return node;
}

// ---- The first claim ----
TEST(Succession, WhoHoldsTheEndpointMakesTheFirstClaim) {
  Node node(true);
  node.Read(std::nullopt, At(0s));
  EXPECT_EQ(node.Get<TakeClaim>().number, 1u);
  EXPECT_FALSE(node.Get<TakeClaim>().successor);
}

// Else the server would be wherever a node happened to start first.
TEST(Succession, OthersWaitForTheFirstClaimHoweverLongItTakes) {
  Node node(false);
  node.Read(std::nullopt, At(0s));
  EXPECT_EQ(node.Get<Follow>().endpoint, node.config.given);
  EXPECT_FALSE(node.ReadUntil(At(60s), std::nullopt));
}

TEST(Succession, ALateNodeFollowsTheClaimNotTheEndpointGiven) {
  Node node(true);
  node.Read(ClaimOf(3, 7), At(0s));
  EXPECT_EQ(node.Get<Follow>().endpoint, ClaimOf(3, 7).endpoint);
  EXPECT_FALSE(node.Has<TakeClaim>());
}

TEST(Succession, WhoeverIsSecondFollowsWhoeverWasFirst) {
  Node node(true);
  node.Read(std::nullopt, At(0s));
  node.Feed(NotClaimed{true, ""}, At(0s));
  EXPECT_FALSE(node.Has<Notice>());
  EXPECT_EQ(node.state.phase, SuccessionPhase::kFollowing);
  node.Read(ClaimOf(1, 0), *NextWake(node.state, node.config));
  EXPECT_EQ(node.Get<Follow>().endpoint, ClaimOf(1, 0).endpoint);
}

// ---- Taking over ----
TEST(Succession, ASilentServerWithAStillCounterIsReplacedAfterTwoLeases) {
  Node node = Follower();
  EXPECT_FALSE(node.ReadUntil(At(5999ms), ClaimOf(1, 5)));
  EXPECT_TRUE(node.ReadUntil(At(6500ms), ClaimOf(1, 5)));
  EXPECT_EQ(node.Get<TakeClaim>().number, 2u);
  EXPECT_EQ(node.Get<TakeClaim>().above, Term{100});
  EXPECT_TRUE(node.Get<TakeClaim>().successor);
}

// The directory may be slow, or what is read of it old.
TEST(Succession, AStillCounterIsNoReasonWhileTheServerAnswers) {
  Node node = Follower();
  for (int second = 1; second < 30; ++second) {
    node.Heard(Term{100}, At(second * 1s));
    EXPECT_FALSE(node.ReadUntil(At(second * 1s), ClaimOf(1, 5)));
  }
}

// The network of this node may be cut, or the server's connection refused.
TEST(Succession, ASilentServerIsNoReasonWhileItsCounterMoves) {
  Node node = Follower();
  for (std::uint64_t second = 1; second < 30; ++second) {
    EXPECT_FALSE(node.ReadUntil(At(static_cast<int>(second) * 1s), ClaimOf(1, 5 + second)));
  }
}

// What it did not hear meanwhile is its own fault; and what it then reads may be old.
TEST(Succession, WhoStoodStillDoesNotTakeTheServerForSilent) {
  Node node = Follower();
  node.Tick(At(7s));
  ASSERT_TRUE(node.Has<ReadDirectory>());
  node.Feed(DirectoryRead{At(7s), ClaimOf(1, 5)}, At(7s));
  EXPECT_FALSE(node.Has<TakeClaim>());
  EXPECT_FALSE(node.ReadUntil(At(9900ms), ClaimOf(1, 5)));
  EXPECT_TRUE(node.ReadUntil(At(11s), ClaimOf(1, 5)));
}

TEST(Succession, ABlipShorterThanALeaseCausesNothing) {
  Node node = Follower();
  EXPECT_FALSE(node.ReadUntil(At(2900ms), ClaimOf(1, 5)));
  node.Heard(Term{100}, At(2900ms));
  EXPECT_FALSE(node.ReadUntil(At(5800ms), ClaimOf(1, 6)));
  EXPECT_FALSE(node.Has<Notice>());
}

// A directory that hangs for all looks as if the counter stood still.
TEST(Succession, AReadThatHangsDoesNotCountAsStandingStill) {
  Node node = Follower();
  node.Tick(At(1s));
  ASSERT_TRUE(node.Has<ReadDirectory>());
  node.Feed(DirectoryRead{At(1s), ClaimOf(1, 5)}, At(30s));
  EXPECT_FALSE(node.Has<TakeClaim>());
  node.Read(ClaimOf(1, 6), *NextWake(node.state, node.config));
  EXPECT_FALSE(node.ReadUntil(At(35s), ClaimOf(1, 6)));
}

TEST(Succession, WhileTheDirectoryIsUnreadableNothingIsTakenOver) {
  Node node = Follower();
  ASSERT_FALSE(node.ReadUntil(At(5s), ClaimOf(1, 5)));
  node.Tick(*NextWake(node.state, node.config));
  node.Feed(DirectoryUnreadable{"it is gone"}, At(5500ms));
  EXPECT_NE(node.Get<Notice>().text.find("it is gone"), std::string::npos);
  EXPECT_FALSE(node.ReadUntil(At(11s), ClaimOf(1, 5)));
  EXPECT_TRUE(node.ReadUntil(At(13500ms), ClaimOf(1, 5)));
}

TEST(Succession, ANewServerHasALeaseToAnswerAndTwoToMove) {
  Node node = Follower();
  ASSERT_FALSE(node.ReadUntil(At(5s), ClaimOf(1, 5)));
  node.Read(ClaimOf(2, 0), *NextWake(node.state, node.config));
  EXPECT_EQ(node.Get<Follow>().endpoint, ClaimOf(2, 0).endpoint);
  EXPECT_FALSE(node.ReadUntil(At(10900ms), ClaimOf(2, 0)));
}

// It lost the race: what it opened is closed again, and it follows the winner.
TEST(Succession, OfTwoThatTakeOverOneFollowsTheOther) {
  Node node = Follower();
  ASSERT_TRUE(node.ReadUntil(At(7s), ClaimOf(1, 5)));
  node.Feed(NotClaimed{true, ""}, At(7s));
  node.Read(ClaimOf(2, 0), *NextWake(node.state, node.config));
  EXPECT_EQ(node.Get<Follow>().endpoint, ClaimOf(2, 0).endpoint);
}

// Each of two had a share of the list: the claim that stood still is still free.
TEST(Succession, OfTwoThatMetTheEarlierOfTheListTriesAgainEarlier) {
  Node first = Follower();
  Node second = Follower();
  first.config.place = 1;
  second.config.place = 2;
  for (Node* const node : {&first, &second}) {
    ASSERT_TRUE(node->ReadUntil(At(7s), ClaimOf(1, 5)));
    node->Feed(NotClaimed{true, ""}, At(7s));
  }
  const Time again = *NextWake(first.state, first.config);
  EXPECT_LT(again, *NextWake(second.state, second.config));
  first.Tick(again);
  first.Feed(ClaimsContested{}, again);  // The other has not let go of its share yet.
  first.Read(ClaimOf(1, 5), *NextWake(first.state, first.config));
  EXPECT_TRUE(first.Has<TakeClaim>());
  second.Read(ClaimOf(2, 0), *NextWake(second.state, second.config));
  EXPECT_EQ(second.Get<Follow>().endpoint, ClaimOf(2, 0).endpoint);
  EXPECT_FALSE(second.Has<TakeClaim>());
}

TEST(Succession, AnAttemptThatIsRefusedAgainAndAgainIsToldOnce) {
  Node node = Follower();
  ASSERT_TRUE(node.ReadUntil(At(7s), ClaimOf(1, 5)));
  node.Feed(NotClaimed{false, "no room"}, At(7s));
  EXPECT_TRUE(node.Has<Notice>());
  node.Read(ClaimOf(1, 5), *NextWake(node.state, node.config));
  ASSERT_TRUE(node.Has<TakeClaim>());
  node.Feed(NotClaimed{false, "no room"}, At(8s));
  EXPECT_FALSE(node.Has<Notice>());
}

// Its maker was lost before the claim was made, and with it whoever knew of it.
TEST(Succession, AClaimThatWasNeverMadeIsForgottenOnceItsServerIsMissed) {
  Node node = Follower();
  ASSERT_FALSE(node.ReadUntil(At(5s), ClaimOf(1, 5)));
  node.Read(ClaimOf(2, 0), *NextWake(node.state, node.config));
  EXPECT_FALSE(node.ReadUntil(At(13s), ClaimOf(1, 5)));
  EXPECT_TRUE(node.ReadUntil(At(16s), ClaimOf(1, 5)));
}

TEST(Succession, AListingOlderThanWhatIsKnownIsPassedOver) {
  Node node(false);
  node.Read(ClaimOf(2, 0), At(0s));
  node.Read(ClaimOf(1, 9), At(1s));
  EXPECT_FALSE(node.Has<Follow>());
  EXPECT_EQ(node.state.newest->number, 2u);
}

TEST(Succession, ALargeWorldsLeaseIsWaitedFor) {
  Node node(false);
  node.Read(ClaimOf(1, 5), At(0s));
  node.Feed(ServerHeard{Term{100}, 90s}, At(0s));
  EXPECT_FALSE(node.ReadUntil(At(170s), ClaimOf(1, 5)));
  EXPECT_TRUE(node.ReadUntil(At(200s), ClaimOf(1, 5)));
}

// ---- Closed claims ----
TEST(Succession, ANodeOfTheRunTakesAClosedClaimAtOnce) {
  Node node = Follower();
  Claim closed = ClaimOf(1, 5);
  closed.closed = true;
  node.Read(closed, At(1s));
  EXPECT_EQ(node.Get<TakeClaim>().number, 2u);
}

TEST(Succession, AnOldRunsClosedClaimIsForWhoHoldsTheEndpoint) {
  Claim closed = ClaimOf(4, 9);
  closed.closed = true;
  Node first(true);
  first.Read(closed, At(0s));
  EXPECT_EQ(first.Get<TakeClaim>().number, 5u);
  EXPECT_EQ(first.Get<TakeClaim>().above, Term{400});
  EXPECT_FALSE(first.Get<TakeClaim>().successor);

  Node other(false);
  other.Read(closed, At(0s));
  EXPECT_EQ(other.Get<Follow>().endpoint, other.config.given);
  EXPECT_FALSE(other.ReadUntil(At(60s), closed));
}

// ---- Serving ----
TEST(Succession, TheHolderMovesItsCounterEveryThirdOfALease) {
  Node node(true);
  node.Serve(1, At(0s));
  EXPECT_EQ(NextWake(node.state, node.config), At(1s));
  node.Move(At(1s));
  EXPECT_EQ(node.state.newest->counter, 1u);
  EXPECT_EQ(NextWake(node.state, node.config), At(2s));
}

TEST(Succession, AHolderThatCannotWriteForALeaseStepsDown) {
  Node node(true);
  node.Serve(1, At(0s));
  node.Move(At(1s));
  node.Tick(At(2s));
  node.Feed(CounterStuck{1, "no space"}, At(2s));
  EXPECT_NE(node.Get<Notice>().text.find("no space"), std::string::npos);
  for (Time now = At(2300ms); now < At(5s); now += 300ms) {
    node.Tick(now);
    ASSERT_FALSE(node.Has<StepDown>());
    node.Feed(CounterStuck{1, "no space"}, now);
  }
  node.Tick(At(5s));
  EXPECT_TRUE(node.Has<StepDown>());
  EXPECT_EQ(node.state.phase, SuccessionPhase::kFollowing);
}

// A write that hangs, or a process that stood still.
TEST(Succession, AHolderThatHearsNothingOfItsWriteStepsDown) {
  Node node(true);
  node.Serve(1, At(0s));
  node.Tick(At(1s));
  ASSERT_TRUE(node.Has<MoveCounter>());
  EXPECT_EQ(NextWake(node.state, node.config), At(2s));
  node.Tick(At(3999ms));
  EXPECT_FALSE(node.Has<StepDown>());
  node.Tick(At(4s));
  EXPECT_TRUE(node.Has<StepDown>());
}

// What was written began before it hung: only from then on is it known.
TEST(Succession, AWriteCountsFromItsBeginning) {
  Node node(true);
  node.Serve(1, At(0s));
  node.Tick(At(1s));
  const Claim written = node.Get<MoveCounter>().claim;
  node.Feed(CounterMoved{At(1s), written, false}, At(3900ms));
  EXPECT_EQ(node.state.kept, At(1s));
  node.Tick(At(5s));
  EXPECT_TRUE(node.Has<StepDown>());
}

TEST(Succession, AHolderThatSeesANewerClaimStepsDownAndFollowsIt) {
  Node node(true);
  node.Serve(1, At(0s));
  node.Move(At(1s), true);
  EXPECT_TRUE(node.Has<StepDown>());
  node.Read(ClaimOf(2, 1), At(1s));
  EXPECT_EQ(node.Get<Follow>().endpoint, ClaimOf(2, 1).endpoint);
}

TEST(Succession, AHolderWhoseNodesHaveHeardALaterServerStepsDown) {
  Node node(true);
  node.Serve(1, At(0s));
  node.Feed(LaterTermHeard{Term{100}}, At(1s));
  EXPECT_FALSE(node.Has<StepDown>());
  node.Feed(LaterTermHeard{Term{101}}, At(1s));
  EXPECT_TRUE(node.Has<StepDown>());
  EXPECT_EQ(node.state.highest, Term{101});
}

// Nobody else wanted it meanwhile: it need not wait for itself.
TEST(Succession, WhoLetGoTakesItsOwnClaimAgainAtOnce) {
  Node node(true);
  node.Serve(1, At(0s));
  node.Tick(At(4s));
  Claim closed = node.Get<StepDown>().claim;
  closed.closed = true;
  node.Feed(DirectoryRead{At(4s), closed}, At(4s));
  EXPECT_EQ(node.Get<TakeClaim>().number, 2u);
  EXPECT_TRUE(node.Get<TakeClaim>().successor);
}

TEST(Succession, AnOldClaimsLateWriteMeansNothingToTheNewOne) {
  Node node(true);
  node.Serve(1, At(0s));
  node.Tick(At(1s));
  ASSERT_TRUE(node.Has<MoveCounter>());
  const Claim old = node.Get<MoveCounter>().claim;
  node.Tick(At(4s));
  node.Feed(DirectoryRead{At(4s), ClaimOf(1, 0)}, At(4s));
  node.Serve(2, At(4s));
  node.Feed(CounterMoved{At(1s), old, true}, At(5s));
  EXPECT_FALSE(node.Has<StepDown>());
  EXPECT_EQ(node.state.newest->number, 2u);
}

// ---- Servers of the past ----
TEST(Succession, AnAnswerOfAnOlderServerIsNotTheServersAnswer) {
  Node node(false);
  node.Read(ClaimOf(2, 5), At(0s));
  EXPECT_FALSE(node.ReadUntil(At(5s), ClaimOf(2, 5)));
  node.Heard(Term{100}, At(5s));
  EXPECT_FALSE(node.state.ever_heard);
  EXPECT_TRUE(node.ReadUntil(At(7s), ClaimOf(2, 5)));
}

}  // namespace
}  // namespace ddprun
