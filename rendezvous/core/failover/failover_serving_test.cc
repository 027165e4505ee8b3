// The serving node: how it keeps its claim, doubts it, and lets it go.
#include "rendezvous/core/failover/failover_testing.h"

namespace ddprun::failover {
namespace {

TEST(Failover, TheHolderMovesItsCounterEveryThirdOfALease) {
  Node node = Holder();
  EXPECT_EQ(NextWake(node.state, node.config), At(1s));
  node.Move(At(1s));
  EXPECT_EQ(node.state.newest->counter, 1u);
  EXPECT_EQ(NextWake(node.state, node.config), At(2s));
}

// An outcome is announced once it is written: no node waits for the next third of a lease.
TEST(Failover, HowARunEndedIsWrittenAtOnceAndHandedOn) {
  Node node = Holder();
  const EndedRun first{"first", {7}, Finish{}};
  const EndedRun second{"second", {9}, Finish{}};
  node.Feed(RunsEnded{{first}}, At(100ms));
  ASSERT_TRUE(node.Has<MoveCounter>());
  const Claim written = node.Get<MoveCounter>().claim;
  EXPECT_EQ(written.ended, std::vector{first});
  node.Feed(RunsEnded{{first, second}}, At(200ms));  // While that is being written.
  EXPECT_FALSE(node.Has<MoveCounter>());
  node.Feed(CounterMoved{At(100ms), written}, At(300ms));
  EXPECT_EQ(NextWake(node.state, node.config), At(300ms));
  node.Move(At(300ms));
  EXPECT_EQ(node.state.newest->ended, (std::vector{first, second}));
  EXPECT_EQ(NextWake(node.state, node.config), At(1'300ms));
  EXPECT_EQ(ClosedClaim(node.state, true).ended.size(), 2u);

  Node successor(true);
  successor.Read(ClosedClaim(node.state, true), At(2s));
  EXPECT_EQ(NewClaim(successor.Get<TakeClaim>(), {1}, {"n2", 1}).ended.size(), 2u);
}

// Beyond some 300 nodes a lease is longer than the least, and so are its thirds.
TEST(Failover, ANodeThatNeverHeardTheServerKnowsItsLeaseFromTheClaim) {
  Node node = Holder();
  node.Feed(LeaseSet{30s}, At(500ms));
  node.Tick(At(1s));
  const Claim claim = node.Get<MoveCounter>().claim;
  EXPECT_EQ(claim.lease, 30s);
  Node other(true);
  EXPECT_FALSE(other.ReadUntil(At(59s), claim));
}

// A disk beside a heavy writer; a move that failed, too.
TEST(Failover, AMoveThatTakesLongLengthensTheLease) {
  Node node(true);
  node.config.lease = 1s;
  node.Serve(1, At(0s));
  const Time began = *NextWake(node.state, node.config);
  node.Tick(began);
  const Claim moved = node.Get<MoveCounter>().claim;
  EXPECT_EQ(moved.lease, 1s);
  node.Feed(CounterMoved{began, moved, false}, began + 200ms);
  node.Tick(*NextWake(node.state, node.config));
  EXPECT_EQ(node.Get<MoveCounter>().claim.lease, 1'800ms);
  node.Feed(CounterStuck{moved.term, "no"}, node.state.asked + 300ms);
  node.Tick(*NextWake(node.state, node.config));
  EXPECT_EQ(node.Get<MoveCounter>().claim.lease, 2'700ms);
}

// It may have been written, and the answer lost: written again the same, readers would not see that
// the holder lives, while the holder counts on it.
TEST(Failover, NoCounterIsWrittenTwice) {
  Node node = Holder();
  node.Tick(At(1s));
  EXPECT_EQ(node.Get<MoveCounter>().claim.counter, 1u);
  node.Feed(CounterStuck{ClaimOf(1, 0).term, "no answer"}, At(1100ms));
  node.Tick(*NextWake(node.state, node.config));
  const Claim again = node.Get<MoveCounter>().claim;
  EXPECT_EQ(again.counter, 2u);
  node.Feed(CounterMoved{At(1500ms), again, false}, At(1500ms));
  EXPECT_EQ(node.state.newest->counter, 2u);
  node.Tick(At(2500ms));
  EXPECT_EQ(node.Get<MoveCounter>().claim.counter, 3u);
  node.Tick(At(6s));
  EXPECT_EQ(node.Get<StepDown>().claim.counter, 4u);
}

TEST(Failover, AHolderThatSeesANewerClaimStepsDownAndFollowsIt) {
  Node node = Holder();
  node.Move(At(1s), true);
  EXPECT_TRUE(node.Has<StepDown>());
  node.Read(ClaimOf(2, 1), At(1s));
  EXPECT_EQ(node.Get<Follow>().endpoint, ClaimOf(2, 1).endpoint);
}

TEST(Failover, AHolderWhoseNodesHaveHeardALaterServerStepsDown) {
  Node node = Holder();
  node.Feed(LaterTermHeard{Term{100}}, At(1s));
  EXPECT_FALSE(node.Has<StepDown>());
  node.Feed(LaterTermHeard{Term{101}}, At(1s));
  EXPECT_TRUE(node.Has<StepDown>());
  EXPECT_EQ(node.state.highest, Term{101});
}

// No other node wanted it meanwhile: it need not wait for itself.
TEST(Failover, ANodeThatLetGoTakesItsOwnClaimAgainAtOnce) {
  Node node = Holder();
  node.Tick(At(4s));
  Claim closed = node.Get<StepDown>().claim;
  closed.closed = true;
  node.Feed(ClaimsRead{At(4s), closed}, At(4s));
  EXPECT_EQ(node.Get<TakeClaim>().number, 2u);
  EXPECT_TRUE(node.Get<TakeClaim>().takes_over);
}

TEST(Failover, AnOldClaimsLateWriteMeansNothingToTheNewOne) {
  Node node = Holder();
  node.Tick(At(1s));
  ASSERT_TRUE(node.Has<MoveCounter>());
  const Claim old = node.Get<MoveCounter>().claim;
  node.Tick(At(4s));
  node.Feed(ClaimsRead{At(4s), ClaimOf(1, 0)}, At(4s));
  node.Serve(2, At(4s));
  node.Feed(CounterMoved{At(1s), old, true}, At(5s));
  EXPECT_FALSE(node.Has<StepDown>());
  EXPECT_EQ(node.state.newest->number, 2u);
}

// ---- A claim in doubt ----
// (Seed 272970155170: woken after another had taken over, with the answer of a move of long ago.)
TEST(Failover, AnAnswerFromBeforeASleepLeavesTheClaimInDoubt) {
  for (const bool tick_first : {false, true}) {
    Node node = Holder();
    node.Tick(At(1s));
    const Claim moved = node.Get<MoveCounter>().claim;
    if (tick_first) {
      node.Tick(At(3'800ms));
    }
    node.Feed(CounterMoved{At(1s), moved, false}, At(3'800ms));
    EXPECT_EQ(ClaimGoodUntil(node.state, node.config), At(3s));
  }
}

// Else no world could be formed where each write takes that long.
TEST(Failover, AMoveThatHasJustSucceededIsGoodHoweverLongItTook) {
  Node node = Holder();
  node.Tick(At(1s));
  const Claim moved = node.Get<MoveCounter>().claim;
  node.Tick(At(2s));
  node.Tick(At(3s));
  node.Feed(CounterMoved{At(1s), moved, false}, At(3'900ms));
  EXPECT_EQ(ClaimGoodUntil(node.state, node.config), At(3'900ms));
}

// A run's leases are long in its first minute: a server that dies later is not waited for by them.
TEST(Failover, OnceAClaimHasPublishedShorterOnesForAWhileTheyCount) {
  Node node(false);
  node.config.lease = 1s;
  Claim claim = ClaimOf(1, 5);
  claim.lease = 3s;
  node.Read(claim, At(0s));
  claim.lease = 1s;
  for (Time now = At(0s); now < At(30s); now = *NextWake(node.state, node.config)) {
    ++claim.counter;
    node.Read(claim, std::max(now, *NextWake(node.state, node.config)));
  }
  EXPECT_EQ(LeaseNow(node.state, node.config), 1s);
  EXPECT_TRUE(node.ReadUntil(At(33s), claim));
}

}  // namespace
}  // namespace ddprun::failover
