// Of workers that tell no STEP: who hangs, as seen from outside.
#include <gtest/gtest.h>

#include "rendezvous/core/testing/hangs.h"

namespace ddprun {
namespace {

ProgressGroup Seen(std::uint32_t rank, std::uint64_t step, ProgressSource source, bool late = true,
                   const std::string& phase = "", std::uint32_t count = 1) {
  return {step, phase, rank, count, late ? count : 0, 30s, source};
}

ProgressGroup Counted(std::uint32_t rank, std::uint64_t collectives, bool waits,
                      std::uint32_t count = 1) {
  return Seen(rank, collectives, ProgressSource::kCollectives, true, waits ? kInCollective : "",
              count);
}

TEST_F(Hangs, ARankOutsideTheCollectiveThatItsPeersWaitInIsToBlame) {
  Stand({Counted(0, 41, true, 2)}, {Counted(2, 40, false), Counted(3, 41, true)});
  EXPECT_EQ(Why(),
            "rank 2 (local rank 0, host n1) hung: no collective begun for 30.0 s (its peers are at "
            "collective 41, it is after collective 40; counts may be 1 s old)");
}

TEST_F(Hangs, OfTheCountedRanksTheFewAreToBlameAheadToo) {
  Stand({Counted(0, 40, false, 2)}, {Counted(2, 40, false), Counted(3, 41, true)});
  EXPECT_EQ(Why(),
            "rank 3 (local rank 1, host n1) hung: no collective begun for 30.0 s (3 of its peers "
            "are after collective 40, it is in collective 41; counts may be 1 s old)");
}

TEST_F(Hangs, AtOneCollectiveTheRankThatIsPastItIsToBlame) {
  Stand({Counted(0, 41, true, 2)}, {Counted(2, 41, false), Counted(3, 41, true)});
  EXPECT_EQ(scenario.state.drain->hang->rank, 2u);
  EXPECT_NE(Why().find("3 of its peers wait in collective 41, it has left it"), std::string::npos)
      << Why();
}

TEST_F(Hangs, AllInOneCollectiveBlameNoRank) {
  Stand({Counted(0, 41, true, 2)}, {Counted(2, 41, true, 2)});
  EXPECT_TRUE(scenario.state.drain->hang->nobody_lags);
}

// A first compile, an evaluation: no rank waits for another.
TEST_F(Hangs, WhereNoRankWaitsInACollectiveNothingHangs) {
  Stand({Counted(0, 41, false, 2)}, {Counted(2, 40, false, 2)});
  EXPECT_EQ(scenario.state.phase, Phase::kRunning);
}

// Pipelines: one rank's collectives are rare.
TEST_F(Hangs, WhileOneOfThoseThatAreSeenMovesNothingHangs) {
  Stand({Counted(0, 4, true)}, {Seen(2, 900, ProgressSource::kCollectives, false)});
  EXPECT_EQ(scenario.state.phase, Phase::kRunning);
}

TEST_F(Hangs, TheOneThatPrintsIsNotToBlameForIt) {
  Stand({Seen(0, 41, ProgressSource::kPrinted)}, {});
  EXPECT_TRUE(scenario.state.drain->hang->nobody_lags);
  EXPECT_EQ(Why(),
            "the workers hang: no step printed for 30.0 s (it is at step 41; nothing is known of 3 "
            "ranks)");
}

// Of rank 0 nothing but its lines is known: the others' collectives are compared.
TEST_F(Hangs, CollectivesAreNotComparedWithPrintedSteps) {
  Stand({Seen(0, 7, ProgressSource::kPrinted), Counted(1, 41, true)}, {Counted(2, 41, true, 2)});
  EXPECT_TRUE(scenario.state.drain->hang->nobody_lags);
  EXPECT_NE(Why().find("nothing is known of 1 rank)"), std::string::npos) << Why();
}

// Rank 0 tells its steps, its peers' collectives are counted.
TEST_F(Hangs, TheRankFurthestBehindIsFreshAmongThoseThatAreCompared) {
  Stand({Late(0, 5), Counted(1, 9, true)}, {Counted(2, 9, true, 2)});
  EXPECT_NE(scenario.state.phase, Phase::kRunning);
}

TEST_F(Hangs, ARankThatNeverJoinsIsToBlame) {
  const ProgressGroup absent = Seen(2, 0, ProgressSource::kCollectives, true, kBeforeJoining);
  Stand({Counted(0, 0, true, 2)}, {absent, Counted(3, 0, true)});
  EXPECT_EQ(Why(),
            "rank 2 (local rank 0, host n1) hung: no collective begun for 30.0 s (3 of its peers "
            "wait for it to join the process group)");
}

TEST_F(Hangs, ARankThatNeverJoinsIsToBlameWhereOthersWaitInTheFirstCollective) {
  const ProgressGroup absent = Seen(2, 0, ProgressSource::kCollectives, true, kBeforeJoining);
  Stand({Counted(0, 1, true, 2)}, {absent, Counted(3, 1, true)});
  EXPECT_EQ(Why(),
            "rank 2 (local rank 0, host n1) hung: no collective begun for 30.0 s (its peers are at "
            "collective 1, it is before the first collective, and idle; counts may be 1 s old)");
}

TEST_F(Hangs, ARankThatFallsSilentBeforeTheFirstCollectiveMayPrepareTheData) {
  const ProgressGroup unheard = Seen(2, 0, ProgressSource::kCollectives, true, kUnheard);
  Stand({Counted(0, 1, true, 2)}, {unheard, Counted(3, 1, true)});
  EXPECT_EQ(scenario.state.phase, Phase::kRunning);
  Stand({Counted(0, 6, true, 2)}, {unheard, Counted(3, 6, true)}, At(90s));
  EXPECT_EQ(Why(),
            "rank 2 (local rank 0, host n1) hung: no collective begun for 30.0 s (its peers are at "
            "collective 6, it is at one of the first collectives, and silent since; counts "
            "may be 1 s old)");
}

// --start-timeout
ProgressGroup NotBegun(std::uint32_t rank, std::uint32_t count) {
  return Seen(rank, 0, ProgressSource::kCollectives, true, kNotBegun, count);
}

TEST_F(Hangs, AStartThatAllTakeTooLongForIsAHang) {
  Stand({NotBegun(0, 2)}, {NotBegun(2, 2)});
  EXPECT_EQ(Why(),
            "the workers hang: no step and no collective within 30.0 s of its start "
            "(--start-timeout; all 4 ranks alike)");
}

TEST_F(Hangs, ARankThatDoesNotBeginInItsTimeIsToBlameWhereOthersWaitForIt) {
  Stand({Counted(0, 0, true, 2)}, {NotBegun(2, 1), Counted(3, 0, true)});
  EXPECT_EQ(Why(),
            "rank 2 (local rank 0, host n1) hung: no step and no collective within 30.0 s of its "
            "start (--start-timeout; 3 ranks wait for it)");
}

TEST_F(Hangs, WhileOneBeginsInTimeTheStartIsNoHang) {
  Stand({NotBegun(0, 2)}, {Seen(2, 0, ProgressSource::kCollectives, false, kBeforeJoining, 2)});
  EXPECT_EQ(scenario.state.phase, Phase::kRunning);
}

// It prepares the data; the others wait for it in the first one.
TEST_F(Hangs, ARankThatHasBegunNoCollectiveMayStillPrepareIt) {
  Stand({Counted(1, 1, true)}, {Counted(2, 1, true, 2)});
  EXPECT_EQ(scenario.state.phase, Phase::kRunning);
}

// Rank 2 waits in a group of its own with rank 3.
TEST_F(Hangs, OfThoseBehindTheRankThatWaitsForNoOtherIsToBlame) {
  Stand({Counted(0, 11, true, 2)}, {Counted(2, 10, true), Counted(3, 10, false)});
  EXPECT_EQ(scenario.state.drain->hang->rank, 3u);
}

// It came to the barrier at last, and is gone: the others' words of it are on their way.
TEST_F(Hangs, ARankThatWaitedForOneThatHasEndedHasItsTimeFromThenOn) {
  a.report.ended_well = 1;
  Stand({Counted(1, 1, true)}, {Counted(2, 1, true, 2)});
  EXPECT_EQ(scenario.state.phase, Phase::kRunning);
  Stand({Counted(1, 1, true)}, {Counted(2, 1, true, 2)}, At(62s));
  EXPECT_NE(scenario.state.phase, Phase::kRunning);
}

}  // namespace
}  // namespace ddprun
