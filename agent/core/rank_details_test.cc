#include "agent/core/rank_details.h"

#include <gtest/gtest.h>

#include "agent/core/report.h"
#include "agent/core/scenario_testing.h"

namespace ddprun {
namespace {

struct AgentRankDetails : Agent {
  RankDetails Seen() const { return RankDetailsOf(state, config); }
};

struct RunningAgentRankDetails : AgentRankDetails {
  void SetUp() override {
    AgentRankDetails::SetUp();
    TellRun(1, 1s);
  }
};

TEST_F(AgentRankDetails, IsEmptyWithoutWorkers) {
  EXPECT_EQ(Seen(), RankDetails{});
  TellRun(1, 1s);
  EXPECT_EQ(Seen().ranks, std::vector<RankDetail>(2));
}

TEST_F(RunningAgentRankDetails, TellsEachRankAsOfTheNewestCall) {
  Speak(1, {.step = 7, .phase = "train"}, 2s);
  Told(RunOf(1), 5s);
  const RankDetails told = Seen();
  ASSERT_EQ(told.ranks.size(), 2u);
  EXPECT_EQ(told.ranks[0], RankDetail{});
  EXPECT_EQ(told.ranks[1], (RankDetail{RankState::kRunning, 7, 3s, {}, 1}));
  EXPECT_EQ(told.phases, std::vector<std::string>{"train"});
}

// Which rank is in a collective is seen from outside. The phase that a worker reports says more.
TEST_F(RunningAgentRankDetails, ShowsTheRanksInACollectiveOfThoseThatReportSteps) {
  Speak(0, {.step = 7}, 2s);
  Speak(1, {.step = 7, .phase = "data"}, 2s);
  const auto phase = [this](std::uint32_t rank) { return Seen().ranks[rank].phase; };
  EXPECT_EQ(phase(0), 0u);
  for (const std::uint32_t rank : {0, 1}) {
    Speak(rank, {.collectives = 8, .world_collectives = 8, .in_collective = true}, 3s);
  }
  EXPECT_EQ(Seen().phases, (std::vector<std::string>{kInCollective, "data"}));
  EXPECT_EQ(phase(0), 1u);
  EXPECT_EQ(phase(1), 2u);
  EXPECT_EQ(Seen().ranks[0].step, 7u);
  Speak(0, {.printed = 3}, 4s);
  EXPECT_EQ(phase(0), 1u);
  Speak(0, {.collectives = 8, .world_collectives = 8}, 5s);
  EXPECT_EQ(phase(0), 0u);
}

// The first STEP of a world that continues from a checkpoint is no time of 1,000 steps.
TEST_F(RunningAgentRankDetails, MeasuresWhatAStepTakes) {
  Speak(0, {.step = 1'000}, 2s);
  EXPECT_EQ(Seen().ranks[0].step_time.count(), 0);
  Speak(0, {.step = 1'002}, 3s);
  EXPECT_EQ(Seen().ranks[0].step_time, 500ms);
  Speak(0, {.step = 1'003}, 3s + 900ms);
  EXPECT_EQ(Seen().ranks[0].step_time, 550ms);
  Speak(0, {.step = 900}, 9s);  // No progress.
  EXPECT_EQ(Seen().ranks[0].step_time, 550ms);
}

TEST_F(RunningAgentRankDetails, TellsTheLeastOfTheLastTwentySteps) {
  Speak(0, {.step = 100}, 2s);
  for (std::uint64_t step = 101; step < 120; ++step) {
    Speak(0, {.step = step, .work = 60ms}, 2s + (step - 100) * 100ms);
    EXPECT_EQ(Seen().ranks[0].work.count(), 0) << "after step " << step;
  }
  Speak(0, {.step = 120, .work = 50ms}, 4s);
  EXPECT_EQ(Seen().ranks[0].work, 50ms);
  for (std::uint64_t step = 121; step < 140; ++step) {
    Speak(0, {.step = step, .work = 60ms}, 4s + (step - 120) * 100ms);
    EXPECT_EQ(Seen().ranks[0].work, 50ms) << "after step " << step;
  }
  Speak(0, {.step = 140, .work = 60ms}, 6s);
  EXPECT_EQ(Seen().ranks[0].work, 60ms);
}

TEST_F(RunningAgentRankDetails, CountsStepsThatAreReportedTogether) {
  Speak(0, {.step = 100}, 2s);
  Speak(0, {.step = 115, .work = 3ms}, 3s);
  Speak(0, {.step = 119, .work = 9ms}, 4s);
  EXPECT_EQ(Seen().ranks[0].work.count(), 0);
  Speak(0, {.step = 130, .work = 9ms}, 5s);
  EXPECT_EQ(Seen().ranks[0].work, 3ms);  // Of the last 20 steps some were reported with it.
  Speak(0, {.step = UINT64_MAX, .work = 9ms}, 6s);
  EXPECT_EQ(Seen().ranks[0].work, 9ms);
}

// A program that says STEP alone: what its steps take.
TEST_F(RunningAgentRankDetails, MeasuresStepsWhereNoWorkIsReported) {
  Speak(0, {.step = 100}, 2s);
  Speak(0, {.step = 120}, 4s);
  EXPECT_EQ(Seen().ranks[0].work, 100ms);
}

TEST_F(RunningAgentRankDetails, KeepsTheLastReportOfTheRankThatKnows) {
  Speak(0, {.step = 5}, 2s);
  Speak(0, {.loss = 0.5, .samples_per_s = 100.0}, 2s);
  Speak(0, {.step = 6}, 3s);
  Speak(0, {.loss = 0.25, .checkpoint = 4}, 3s);
  EXPECT_EQ(Seen().training, (TrainingPoint{6, 0.25, 100.0, 4}));
}

TEST_F(AgentRankDetails, SaysHowManyStepsThereAreInAll) {
  Speak(0, {.steps = 9}, 1s);  // Of workers that are no more.
  EXPECT_EQ(Seen().steps, 0u);
  TellRun(1, 1s);
  Speak(1, {.step = 5, .steps = 2'000}, 2s);
  Speak(0, {.step = 5}, 2s);
  EXPECT_EQ(Seen().steps, 2'000u);
  EXPECT_FALSE(Seen().training);  // It is no point of the curve.
}

TEST_F(RunningAgentRankDetails, TravelsWithTheNextReport) {
  Speak(0, {.step = 5, .loss = 0.5}, 2s);
  EXPECT_FALSE(Did<SendReport>());
  Told(RunOf(1), 3s);
  EXPECT_EQ(Find<SendReport>()->report.rank_details, Seen());
}

TEST_F(RunningAgentRankDetails, NamesTheRanksThatHaveEnded) {
  Speak(1, {.step = 7}, 2s);
  Ends(1, Exited{0}, 3s);
  EXPECT_EQ(Seen().ranks[1].state, RankState::kEnded);
  EXPECT_EQ(Seen().ranks[0].state, RankState::kNoWord);
}

TEST_F(AgentRankDetails, HasAFewPhasesAndNoMore) {
  config.workers = 20;
  TellRun(1, 1s);
  for (std::uint32_t rank = 0; rank < 20; ++rank) {
    Speak(rank, {.ready = true, .phase = "p" + std::to_string(rank)}, 2s);
  }
  const RankDetails told = Seen();
  EXPECT_EQ(told.phases.size(), kMostPhases);
  EXPECT_EQ(told.ranks[7].phase, 8u);
  EXPECT_EQ(told.ranks[8].phase, 0u);
}

}  // namespace
}  // namespace ddprun
