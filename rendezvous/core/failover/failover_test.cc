#include "rendezvous/core/failover/failover_testing.h"
#include "rendezvous/core/recovery.h"

namespace ddprun::failover {
namespace {

// ---- The first claim ----
// Otherwise the server would be on the node that happened to start first.
TEST(Failover, OthersWaitForTheFirstClaimHoweverLongItTakes) {
  Node node(false);
  node.Read(std::nullopt, At(0s));
  EXPECT_EQ(node.Get<Follow>().endpoint, node.config.given);
  EXPECT_FALSE(node.ReadUntil(At(60s), std::nullopt));
}

TEST(Failover, TheSecondNodeFollowsTheFirst) {
  Node node(true);
  node.Read(std::nullopt, At(0s));
  node.Feed(NotClaimed{true, ""}, At(0s));
  EXPECT_FALSE(node.Has<Notice>());
  EXPECT_EQ(node.state.phase, FailoverPhase::kFollowing);
  node.Read(ClaimOf(1, 0), *NextWake(node.state, node.config));
  EXPECT_EQ(node.Get<Follow>().endpoint, ClaimOf(1, 0).endpoint);
}

// ---- Taking over ----
TEST(Failover, ASilentServerWithAStillCounterIsReplacedAfterTwoLeases) {
  Node node = Follower();
  EXPECT_FALSE(node.ReadUntil(At(5999ms), ClaimOf(1, 5)));
  EXPECT_TRUE(node.ReadUntil(At(6500ms), ClaimOf(1, 5)));
  EXPECT_EQ(node.Get<TakeClaim>().number, 2u);
  EXPECT_EQ(node.Get<TakeClaim>().above, Term{100});
  EXPECT_TRUE(node.Get<TakeClaim>().takes_over);
}

// The log named a server at ":0", and not the claim.
TEST(Failover, ADamagedClaimIsSaidOnceAndNamesNoServer) {
  const Claim damaged{.number = 2, .damaged = true};
  Node node(false);
  node.Read(damaged, At(0s));
  EXPECT_TRUE(node.Get<Notice>().text.starts_with("claim 2 in the run directory is incomplete"));
  EXPECT_EQ(node.Get<Follow>().endpoint, node.config.given);
  EXPECT_FALSE(node.ReadUntil(At(5'999ms), damaged));
  EXPECT_FALSE(node.Has<Notice>());
  EXPECT_TRUE(node.ReadUntil(At(6'500ms), damaged));
  EXPECT_EQ(node.Get<TakeClaim>().number, 3u);
}

// Seed 54532835013: the node tried for ever to replace a live server, and was refused each time.
TEST(Failover, OfItsOwnNumberAnotherNodesClaimIsNotItsOwn) {
  Node node(false);
  node.Serve(2, At(0s));
  node.Tick(At(30s));  // It stood still: it lets go, and looks.
  ASSERT_EQ(node.state.phase, FailoverPhase::kFollowing);
  Claim other = ClaimOf(2, 5);
  other.term = Term{9'999};
  ASSERT_TRUE(node.Has<ReadClaims>());
  node.Feed(ClaimsRead{At(30s), other}, At(30s));
  EXPECT_FALSE(node.Has<TakeClaim>());
  EXPECT_EQ(node.Get<Follow>().endpoint, other.endpoint);
}

// The winner's claim is in the directory. One that shows it late must not be read without a pause.
TEST(Failover, ANodeThatWasSecondLooksAgainSoon) {
  Node node = Follower();
  ASSERT_TRUE(node.ReadUntil(At(7s), ClaimOf(1, 5)));
  node.Feed(NotClaimed{true, ""}, At(7s));
  EXPECT_EQ(NextWake(node.state, node.config), At(7'100ms));
}

// ---- A holder that died, and whose guard said so ----
TEST(Failover, AFailedCallLooksOftenButProvesNothing) {
  Node node = Follower();
  node.Read(ClaimOf(1, 5), At(1s));
  EXPECT_EQ(NextWake(node.state, node.config), At(2s));
  node.Feed(ServerCallFailed{}, At(1100ms));
  EXPECT_EQ(NextWake(node.state, node.config), At(1200ms));
  node.Read(ClaimOf(1, 5), At(1200ms));
  EXPECT_EQ(NextWake(node.state, node.config), At(1300ms));
  EXPECT_FALSE(node.ReadUntil(At(5999ms), ClaimOf(1, 5)));
  // After one call that is answered, the pace of reading is as before.
  node.Heard(Term{100}, At(6s));
  node.Read(ClaimOf(1, 6), *NextWake(node.state, node.config));
  EXPECT_GE(*NextWake(node.state, node.config), At(7s));
}

TEST(Failover, OfARunThatIsOverNoNodeNeedsToKnowADeath) {
  Node node = Follower();
  Claim over = ClaimOf(1, 6);
  over.closed = over.over = true;
  over.died = Died{{"n1", {7}}, {77}, 0};
  node.Read(over, *NextWake(node.state, node.config));
  EXPECT_EQ(node.Get<TakeClaim>().died, std::nullopt);
}

// A server without an agent has no calls whose answers would show that the server is alive.
TEST(Failover, WithoutAnAgentAMovingCounterIsTheServersAnswer) {
  Node node(false);
  node.config.listens = false;
  for (int i = 0; i < 10; ++i) {
    node.Read(ClaimOf(1, static_cast<std::uint64_t>(i)), At(i * 1s));
    EXPECT_FALSE(node.Has<Notice>()) << i;
  }
  EXPECT_FALSE(node.ReadUntil(At(14s), ClaimOf(1, 9)));
  EXPECT_TRUE(node.ReadUntil(At(16s), ClaimOf(1, 9)));
}

TEST(Failover, WhileTheDirectoryIsUnreadableNothingIsTakenOver) {
  Node node = Follower();
  ASSERT_FALSE(node.ReadUntil(At(5s), ClaimOf(1, 5)));
  node.Tick(*NextWake(node.state, node.config));
  node.Feed(ClaimsUnreadable{"it is gone"}, At(5500ms));
  EXPECT_NE(node.Get<Notice>().text.find("it is gone"), std::string::npos);
  EXPECT_FALSE(node.ReadUntil(At(11s), ClaimOf(1, 5)));
  EXPECT_TRUE(node.ReadUntil(At(13500ms), ClaimOf(1, 5)));
}

TEST(Failover, ANewServerHasALeaseToAnswerAndTwoToMove) {
  Node node = Follower();
  ASSERT_FALSE(node.ReadUntil(At(5s), ClaimOf(1, 5)));
  node.Read(ClaimOf(2, 0), *NextWake(node.state, node.config));
  EXPECT_EQ(node.Get<Follow>().endpoint, ClaimOf(2, 0).endpoint);
  EXPECT_FALSE(node.ReadUntil(At(10900ms), ClaimOf(2, 0)));
}

TEST(Failover, AnAttemptThatIsRefusedAgainAndAgainIsReportedOnce) {
  Node node = Follower();
  ASSERT_TRUE(node.ReadUntil(At(7s), ClaimOf(1, 5)));
  node.Feed(NotClaimed{false, "no room"}, At(7s));
  EXPECT_TRUE(node.Has<Notice>());
  node.Read(ClaimOf(1, 5), *NextWake(node.state, node.config));
  ASSERT_TRUE(node.Has<TakeClaim>());
  node.Feed(NotClaimed{false, "no room"}, At(8s));
  EXPECT_FALSE(node.Has<Notice>());
}

TEST(Failover, AListingOlderThanWhatIsKnownIsPassedOver) {
  Node node(false);
  node.Read(ClaimOf(2, 0), At(0s));
  node.Read(ClaimOf(1, 9), At(1s));
  EXPECT_FALSE(node.Has<Follow>());
  EXPECT_EQ(node.state.newest->number, 2u);
}

TEST(Failover, ADirectoryThatShowsNoClaimAnyMoreIsAnOldListing) {
  Node node(true);  // It holds the endpoint given, and would begin where there is no claim.
  node.Read(ClaimOf(2, 0), At(0s));
  node.Read(std::nullopt, At(1s));
  EXPECT_FALSE(node.Has<TakeClaim>());
  EXPECT_FALSE(node.ReadUntil(At(5'999ms), std::nullopt));
  EXPECT_TRUE(node.ReadUntil(At(8s), std::nullopt));  // A silent server, and nothing has moved.
  EXPECT_EQ(node.Get<TakeClaim>().number, 3u);
}

TEST(Failover, ALargeWorldsLeaseIsWaitedFor) {
  Node node(false);
  node.Read(ClaimOf(1, 5), At(0s));
  node.Feed(ServerHeard{Term{100}, 90s}, At(0s));
  EXPECT_FALSE(node.ReadUntil(At(170s), ClaimOf(1, 5)));
  EXPECT_TRUE(node.ReadUntil(At(200s), ClaimOf(1, 5)));
}

// An old listing shows the claim as it was before its server or nodes were late.
TEST(Failover, TheLongestLeaseInAClaimIsWaitedFor) {
  Node node(false);
  node.config.lease = 1s;
  Claim claim = ClaimOf(1, 5);
  claim.lease = 3s;
  node.Read(claim, At(0s));
  Claim old = ClaimOf(1, 4);
  old.lease = 1s;
  EXPECT_FALSE(node.ReadUntil(At(5'900ms), old));
  EXPECT_TRUE(node.ReadUntil(At(9s), old));
}

TEST(Failover, AProcessThatStandsStillWaitsLongerForOthers) {
  Node node(false);
  node.config.lease = 1s;
  node.Read(ClaimOf(1, 5), At(0s));
  node.Tick(*NextWake(node.state, node.config) + 500ms);
  EXPECT_EQ(LeaseNow(node.state, node.config), 2s);
}

// The cause that made machines late does not end with a term.
TEST(Failover, AnHeirBeginsWithTheLeaseThatItWaitedFor) {
  Node node(false);
  node.config.lease = 1s;
  Claim claim = ClaimOf(1, 5);
  claim.lease = 2s;
  node.Read(claim, At(0s));
  ASSERT_TRUE(node.ReadUntil(At(9s), claim));
  const Claim own = NewClaim(node.Get<TakeClaim>(), {1}, {"n2", 1});
  EXPECT_EQ(own.lease, 2s);
  node.Feed(Claimed{At(9s), own}, At(9s));
  node.Tick(*NextWake(node.state, node.config));
  EXPECT_EQ(node.Get<MoveCounter>().claim.lease, 2s);
}

// ---- Closed claims ----
// Otherwise it would begin another run, instead of telling its agent how this one ended.
TEST(Failover, ANodeOfTheRunTakesAClaimThatIsOverAsItsSuccessor) {
  Node node = Follower();
  Claim closed = ClaimOf(1, 5);
  closed.closed = closed.over = true;
  node.Read(closed, At(1s));
  EXPECT_TRUE(node.Get<TakeClaim>().takes_over);
  EXPECT_TRUE(node.Get<TakeClaim>().over);
}

// Nodes that the last server never met may still come: they hear how the run ended, and do not
// begin another one. (Seed 950782477031: a server without an agent never hears an answer.)
TEST(Failover, ANodeThatFollowedAClaimThatIsOverNowIsItsSuccessor) {
  Node node(true);
  node.config.listens = false;
  node.Read(ClaimOf(1, 5), At(0s));
  Claim closed = ClaimOf(1, 6);
  closed.closed = closed.over = true;
  node.Read(closed, At(1s));
  EXPECT_TRUE(node.Get<TakeClaim>().takes_over);
}

// The holder stepped down while the run continued: nodes of which this one has never heard may run
// a world.
TEST(Failover, ANodeThatBeginsAfterAClaimThatWasLetGoIsASuccessor) {
  Claim closed = ClaimOf(4, 9);
  closed.closed = true;
  Node first(true);
  first.Read(closed, At(0s));
  EXPECT_TRUE(first.Get<TakeClaim>().takes_over);
  EXPECT_FALSE(first.Get<TakeClaim>().over);
}

TEST(Failover, AnOldRunsClosedClaimIsForTheHolderOfTheEndpoint) {
  Claim closed = ClaimOf(4, 9);
  closed.closed = closed.over = true;
  Node first(true);
  first.Read(closed, At(0s));
  EXPECT_EQ(first.Get<TakeClaim>().number, 5u);
  EXPECT_EQ(first.Get<TakeClaim>().above, Term{400});
  EXPECT_FALSE(first.Get<TakeClaim>().takes_over);

  Node other(false);
  other.Read(closed, At(0s));
  EXPECT_EQ(other.Get<Follow>().endpoint, other.config.given);
  EXPECT_FALSE(other.ReadUntil(At(60s), closed));
}

// ---- Servers of the past ----
TEST(Failover, AnAnswerOfAnOlderServerIsNotTheServersAnswer) {
  Node node(false);
  node.Read(ClaimOf(2, 5), At(0s));
  EXPECT_FALSE(node.ReadUntil(At(5s), ClaimOf(2, 5)));
  node.Heard(Term{100}, At(5s));
  EXPECT_FALSE(node.state.ever_heard);
  EXPECT_TRUE(node.ReadUntil(At(7s), ClaimOf(2, 5)));
}

}  // namespace
}  // namespace ddprun::failover
