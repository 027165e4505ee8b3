#include "rendezvous/messages/lateness.h"

#include <gtest/gtest.h>

#include "rendezvous/core/testing/pair.h"
#include "rendezvous/messages/lease.h"

namespace ddprun {
namespace {

TEST(Lateness, TheLongestOfTheLastMinutesCounts) {
  WindowedMax longest;
  Observe(longest, 2s, At(0s), kLatenessRemembered);
  Observe(longest, 1s, At(1s), kLatenessRemembered);
  EXPECT_EQ(Value(longest), 2s);
  Observe(longest, 1s, At(5min), kLatenessRemembered);
  EXPECT_EQ(Value(longest), 2s);
  Observe(longest, 500ms, At(10min), kLatenessRemembered);
  EXPECT_EQ(Value(longest), 1s);
  Observe(longest, 0s, At(60min), kLatenessRemembered);
  EXPECT_EQ(Value(longest), 0s);
}

TEST(Lateness, AnUnprovenNodeHasALongLeaseForAMinute) {
  WindowedMax longest = Unproven(3s, At(0s));
  Observe(longest, 0s, At(59s), kLatenessRemembered);
  EXPECT_EQ(Value(longest), 3s);
  Observe(longest, 300ms, At(60s), kLatenessRemembered);
  EXPECT_EQ(Value(longest), 300ms);
  longest = Unproven(3s, At(0s));
  Observe(longest, 2s, At(30s), kLatenessRemembered);  // Measured then, it counts as ever.
  Observe(longest, 0s, At(61s), kLatenessRemembered);
  EXPECT_EQ(Value(longest), 2s);
}

TEST(Lateness, NothingLengthensALeaseBeyondTheLongOne) {
  EXPECT_EQ(LeaseThatFits(300ms, 4, 3s), 1'200ms);
  EXPECT_EQ(LeaseThatFits(-5ms, 4, 3s), 0ms);
  EXPECT_EQ(LeaseThatFits(Duration::max(), 4, 3s), 3s);
}

// Else a node whose call is parked for a third of the longer one believes the server to be gone.
TEST(Lateness, CallsAreParkedByTheLeaseThatNodesKnow) {
  PublishedLease published;
  EXPECT_EQ(LeaseKnown(published, 1s, At(0s)), 1s);
  ObservePublished(published, 1s, At(0s));
  ObservePublished(published, 2s, At(1s));  // To the first of them.
  ObservePublished(published, 3s, At(2s));
  EXPECT_EQ(LeaseKnown(published, 3s, At(4'900ms)), 1s);
  EXPECT_EQ(LeaseKnown(published, 3s, At(5s)), 3s);
  ObservePublished(published, 1s, At(6s));
  EXPECT_EQ(LeaseKnown(published, 1s, At(6s)), 1s);
}

// Two nodes of a world, with a lease that lateness can lengthen.
struct LatePair : PairOfNodes {
  LatePair() {
    scenario.config.base_lease = 1s;
    Form();
  }
  Duration Lease() const { return LeaseOf(scenario.state, scenario.config); }
};

TEST_F(LatePair, AMemberThatTakesLongToSpeakAgainLengthensTheLease) {
  a.Closes(At(100ms), false);
  a.Hears(At(100ms)).Says(At(200ms));
  EXPECT_EQ(Lease(), 1s);
  a.Closes(At(500ms), false);
  a.Hears(At(500ms)).Says(At(1s));
  EXPECT_EQ(Lease(), 2s);
  a.Closes(At(1s), false);
  a.Hears(At(1s)).Says(At(1'001ms));
  EXPECT_EQ(Lease(), 2s);
}

// It was not asked: the answer was parked.
TEST_F(LatePair, NewsFromWhoseCallIsOpenIsNotLate) {
  a.Hears(At(0s)).Says(At(900ms));
  EXPECT_EQ(Lease(), 1s);
}

TEST_F(LatePair, ANodeLostForItsSilenceIsNotLostForItAgain) {
  a.Closes(At(100ms), false);
  b.Hears(At(800ms)).Says(At(900ms));
  scenario.Tick(At(1'050ms));
  ASSERT_TRUE(scenario.Said("node n0 is lost: nothing heard for its lease"));
  a.Hears(At(100ms)).Says(At(1'100ms));
  EXPECT_EQ(Lease(), scenario.config.long_lease);
}

TEST_F(LatePair, OutsidersAreNotWaitedFor) {
  Node outsider(scenario, "n2", kTwo);
  outsider.Says(At(0s)).Closes(At(0s), false);
  outsider.Says(At(900ms));
  EXPECT_EQ(Lease(), 1s);
}

TEST_F(LatePair, AServerThatStoodStillLengthensTheLease) {
  scenario.Tick(*NextWake(scenario.state, scenario.config) + 600ms);
  EXPECT_EQ(Lease(), 2'400ms);
}

// Its nodes must count as lost no sooner than its claim is in doubt.
TEST_F(LatePair, TheClaimsLatenessIsTheNodesToo) {
  scenario.Feed(ClaimGood{At(5s), 2s}, At(0s));
  EXPECT_EQ(Lease(), 2s);
  scenario.Feed(ClaimGood{At(6s), 0s}, At(1s));
  EXPECT_EQ(Lease(), 1s);
}

}  // namespace
}  // namespace ddprun
