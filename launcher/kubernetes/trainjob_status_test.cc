#include "launcher/kubernetes/trainjob_status.h"

#include <gtest/gtest.h>

namespace ddprun {
namespace {

RunStatus At(std::uint64_t step, std::uint64_t steps) {
  RunStatus run;
  run.world_size = 8;
  run.steps = steps;
  run.nodes = {{.node = "n0", .in_world = true, .step = step}};
  run.nodes[0].closeup.ranks = {{RankState::kRunning, step, {}, std::chrono::milliseconds(500), 0}};
  return run;
}

std::optional<TrainJobStatus> Told(const RunStatus& run, bool always) {
  return TrainJobStatusOf(run, StepOf(run), always);
}

TEST(TrainJobStatus, IsSilentWithoutANumberOfStepsUnlessAsked) {
  EXPECT_FALSE(Told(At(5, 0), false));
  const auto told = Told(At(5, 0), true);
  ASSERT_TRUE(told);
  EXPECT_FALSE(told->percentage || told->remaining_seconds);
  EXPECT_EQ(told->metrics.front(), (std::pair<std::string, std::string>{"step", "5"}));
}

TEST(TrainJobStatus, CountsByTheProgramsOwnNumberOfSteps) {
  EXPECT_EQ(Told(At(0, 2'000), false)->percentage, 0u);
  EXPECT_FALSE(Told(At(0, 2'000), false)->remaining_seconds);
  EXPECT_EQ(Told(At(599, 2'000), false)->percentage, 29u);
  EXPECT_EQ(Told(At(599, 2'000), false)->remaining_seconds, 701u);
  RunStatus printed = At(599, 2'000);  // No step that the program knows of.
  printed.nodes[0].step_source = "printed";
  EXPECT_EQ(Told(printed, false)->percentage, 0u);
  printed.training = {{.step = 1'000}};
  EXPECT_EQ(Told(printed, false)->percentage, 50u);
}

// Numbers are a worker's word: any may come.
TEST(TrainJobStatus, StaysBelow100UntilTheRunHasSucceeded) {
  EXPECT_EQ(Told(At(2'000, 2'000), false)->percentage, 99u);
  EXPECT_EQ(Told(At(UINT64_MAX, 1), false)->percentage, 99u);
  EXPECT_EQ(Told(At(UINT64_MAX, 1), false)->remaining_seconds, 0u);
  EXPECT_EQ(Told(At(1, UINT64_MAX), false)->percentage, 0u);
  EXPECT_FALSE(Told(At(1, UINT64_MAX), false)->remaining_seconds);
  RunStatus over = At(1'000, 2'000);
  over.outcome = "failed";
  over.exit_code = 3;
  EXPECT_EQ(Told(over, false)->percentage, 50u);
  EXPECT_FALSE(Told(over, false)->remaining_seconds);
  over.exit_code = 0;
  EXPECT_EQ(Told(over, false)->percentage, 100u);
  EXPECT_EQ(Told(over, false)->remaining_seconds, 0u);
}

TEST(TrainJobStatus, IsJsonAsTheTrainerTakesIt) {
  const TrainJobStatus status{.percentage = 45, .remaining_seconds = 120, .metrics = {{"a", "1"}}};
  EXPECT_EQ(InJson(status, std::chrono::system_clock::time_point(std::chrono::seconds(86'400))),
            R"({"trainerStatus":{"estimatedRemainingSeconds":120,)"
            R"("lastUpdatedTime":"1970-01-02T00:00:00Z","metrics":[{"name":"a","value":"1"}],)"
            R"("progressPercentage":45}})");
  EXPECT_EQ(InJson({}, {}),
            R"({"trainerStatus":{"lastUpdatedTime":"1970-01-01T00:00:00Z","metrics":[]}})");
}

}  // namespace
}  // namespace ddprun
