#include "launcher/headline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ddprun {
namespace {

using ::testing::HasSubstr;

RunStatus Running() {
  RunStatus run{.run_id = "demo", .phase = "running"};
  run.nodes = {{.node = "n0",
                .in_world = true,
                .step = 7,
                .rank_details = {.ranks = {{RankState::kRunning, 8, {}, {}, 0},
                                           {RankState::kRunning, 7, {}, {}, 0}}}}};
  return run;
}

TEST(Headline, SaysWhatTheRunDoes) {
  RunStatus run = Running();
  EXPECT_EQ(HeadlineOf(run).text, "training: step 7");
  run.steps = 6;  // It goes beyond the announced number.
  EXPECT_EQ(HeadlineOf(run).text, "training: step 7");
  run.steps = 2'000;
  EXPECT_EQ(HeadlineOf(run).text, "training: step 7 of 2000");
  run.steps = 0;
  for (RankDetail& rank : run.nodes[0].rank_details.ranks) {
    rank.step_time = std::chrono::milliseconds(800);
  }
  EXPECT_EQ(HeadlineOf(run).text, "training: step 7, 800 ms each");
  EXPECT_FALSE(HeadlineOf(run).bad);
  for (RankDetail& rank : run.nodes[0].rank_details.ranks) {
    rank.since = std::chrono::minutes(4) + std::chrono::seconds(12);
  }
  EXPECT_EQ(HeadlineOf(run).text, "no step for 4 min 12 s (usual 800 ms)");
  EXPECT_TRUE(HeadlineOf(run).bad);
  run.waits_for = "waiting for 3 of 4 nodes";
  EXPECT_EQ(HeadlineOf(run).text, "waiting for 3 of 4 nodes");
  run.outcome = "rank 3 failed";
  run.exit_code = 1;
  EXPECT_EQ(HeadlineOf(run).text, "rank 3 failed");
  EXPECT_TRUE(HeadlineOf(run).bad);
}

RunStatus StalledRun(std::uint32_t ranks) {
  RunStatus run{.run_id = "demo", .phase = "running"};
  for (std::uint32_t node = 0; node < ranks / 4; ++node) {
    NodeStatus status{
        .node = "n" + std::to_string(node), .in_world = true, .first_rank = node * 4, .step = 59};
    status.rank_details.phases = {"all_reduce", "data"};
    status.rank_details.ranks.assign(
        4, {RankState::kRunning, 59, std::chrono::minutes(1), std::chrono::milliseconds(100), 1});
    run.nodes.push_back(status);
  }
  return run;
}

TEST(Headline, NamesTheFewThatDiffer) {
  RunStatus run = StalledRun(32);
  EXPECT_EQ(HeadlineOf(run).text, "no step for 1 min 00 s (usual 100 ms)");
  run.nodes[5].rank_details.ranks[1].phase = 2;
  EXPECT_EQ(
      HeadlineOf(run).text,
      "no step for 1 min 00 s (usual 100 ms): rank 21 on n5 stands in data (step 59), the other "
      "31 in all_reduce (step 59)");
  run.nodes[0].rank_details.ranks[0] = {RankState::kLate, 58, std::chrono::minutes(1), {}, 0};
  EXPECT_THAT(HeadlineOf(run).text,
              HasSubstr(": rank 0 on n0 stands at step 58, rank 21 on n5 stands in data (step 59), "
                        "the other 30 in all_reduce (step 59)"));
}

// Where collectives alone are counted, the length of a step is not known.
RunStatus RunOfCollectives(std::uint32_t ranks, Duration since) {
  RunStatus run{.run_id = "demo", .phase = "running"};
  run.nodes = {{.node = "n0", .in_world = true, .step = 20, .step_source = "collectives"}};
  run.nodes[0].rank_details.phases = {kInCollective};
  run.nodes[0].rank_details.ranks.assign(ranks, {RankState::kRunning, 21, since, {}, 1});
  return run;
}

TEST(Headline, NamesThoseInACollectiveAndThoseThatDoNotCome) {
  RunStatus run = RunOfCollectives(4, std::chrono::seconds(12));
  EXPECT_EQ(HeadlineOf(run).text, "no progress for 12.0 s: ranks 0-3 wait in a collective");
  run.nodes[0].rank_details.ranks[2] = {RankState::kRunning, 20, std::chrono::seconds(12), {}, 0};
  EXPECT_EQ(HeadlineOf(run).text,
            "no progress for 12.0 s: ranks 0-1, 3 wait in a collective; not in it: rank 2 on n0 "
            "(`ddprun stacks` shows where they are)");
  EXPECT_TRUE(HeadlineOf(run).bad);
  run.nodes[0].rank_details.ranks[1] = {RankState::kEnded};
  EXPECT_EQ(HeadlineOf(run).text,
            "no progress for 12.0 s: ranks 0, 3 wait in a collective; not in it: rank 1 on n0 "
            "(ended), rank 2 on n0 (`ddprun stacks` shows where they are)");
  for (RankDetail& rank : run.nodes[0].rank_details.ranks) {
    rank.step_time = std::chrono::milliseconds(100);
  }
  EXPECT_THAT(HeadlineOf(run).text,
              HasSubstr("no step for 12.0 s (usual 100 ms): ranks 0, 3 wait in a collective; not"));
  run = RunOfCollectives(4, std::chrono::seconds(4));
  EXPECT_EQ(HeadlineOf(run).text, "training: 20 collectives");
  run.nodes[0].step = 1;
  EXPECT_EQ(HeadlineOf(run).text, "training: 1 collective");
  run = RunOfCollectives(4, std::chrono::seconds(12));
  run.nodes[0].rank_details.phases = {"start"};  // All work by themselves: no rule says how long.
  EXPECT_EQ(HeadlineOf(run).text, "training: 20 collectives");
}

TEST(Headline, CountsRanksWhoseNumbersAreTooLong) {
  RunStatus run = RunOfCollectives(64, std::chrono::seconds(12));
  for (std::uint32_t rank = 32; rank < 64; ++rank) {
    run.nodes[0].rank_details.ranks[rank].phase = 0;
  }
  EXPECT_THAT(HeadlineOf(run).text,
              HasSubstr(": ranks 0-31 wait in a collective; not in it: ranks 32-63"));
  for (std::uint32_t rank = 0; rank < 64; ++rank) {
    run.nodes[0].rank_details.ranks[rank].phase = rank % 2;
  }
  EXPECT_THAT(HeadlineOf(run).text,
              HasSubstr(": 32 ranks wait in a collective; not in it: 32 ranks"));
}

// The time before a rank's first collective may be long: that is no alarm.
TEST(Headline, NamesThoseThatWaitForTheFirstCollective) {
  RunStatus run = RunOfCollectives(2, Duration{0});
  run.nodes[0].step = 0;
  run.nodes[0].rank_details.ranks[1].phase = 0;
  run.phase_since = std::chrono::seconds(4);
  EXPECT_EQ(HeadlineOf(run).text, "running (no step reported yet)");
  run.phase_since = std::chrono::seconds(6);
  EXPECT_EQ(HeadlineOf(run).text,
            "running (no step reported yet): rank 0 waits in a collective; not in it: rank 1 on n0 "
            "(`ddprun stacks` shows where they are)");
  EXPECT_FALSE(HeadlineOf(run).bad);
}

TEST(Headline, NamesNoRankWhereThereIsNoMany) {
  RunStatus run = StalledRun(32);
  for (NodeStatus& node : run.nodes) {
    node.rank_details.ranks[3].phase = 2;
    node.rank_details.ranks[2].phase = 2;
  }
  EXPECT_EQ(HeadlineOf(run).text, "no step for 1 min 00 s (usual 100 ms)");
  run = StalledRun(64);
  for (std::uint32_t rank = 0; rank < 5; ++rank) {
    run.nodes[rank].rank_details.ranks[0].phase = 2;
  }
  EXPECT_EQ(HeadlineOf(run).text, "no step for 1 min 00 s (usual 100 ms)");
}

TEST(Headline, OfProgramsThatTellNothing) {
  RunStatus run = Running();
  run.nodes[0].rank_details = {};
  run.nodes[0].step = 0;
  EXPECT_THAT(HeadlineOf(run).text, HasSubstr("no step reported; call"));
}

TEST(Goodput, IsWhatWasNotLost) {
  RunStatus run;
  EXPECT_EQ(GoodputOf(run), std::nullopt);
  run.known = std::chrono::seconds(100);
  run.totals = {{"worker", 2, std::chrono::seconds(3)}, {"hang", 1, std::chrono::seconds(7)}};
  run.startups = {{.start = Duration{20}}};
  EXPECT_EQ(GoodputOf(run), std::nullopt) << "nobody knows what was lost";
  run.startups.push_back({.start = Duration{20}, .first_step = Duration{5}});
  EXPECT_DOUBLE_EQ(GoodputOf(run).value(), 0.9);
  run.known = std::chrono::seconds(5);  // Clocks of servers differ.
  EXPECT_DOUBLE_EQ(GoodputOf(run).value(), 0);
}

// A run that stands still, or is yet to train again, is not good until it is over.
TEST(Goodput, FallsWhileNothingMoves) {
  RunStatus run = StalledRun(4);
  run.known = std::chrono::seconds(100);
  run.events = {{.text = "formed", .kind = kEventFormed},
                {.text = "started", .kind = kEventStarted}};
  EXPECT_EQ(LosingNow(run), Duration(59'900));
  EXPECT_DOUBLE_EQ(GoodputOf(run).value(), 0.401);
  for (RankDetail& rank : run.nodes[0].rank_details.ranks) {
    rank.since = std::chrono::seconds(4);  // A save, a step that is longer than most.
  }
  EXPECT_EQ(LosingNow(run), Duration(0));
  EXPECT_DOUBLE_EQ(GoodputOf(run).value(), 1);
  run.events.push_back(
      {.text = "stopping", .kind = kEventStopping, .age = std::chrono::seconds(10)});
  run.events.push_back({.text = "formed", .kind = kEventFormed});
  EXPECT_EQ(LosingNow(run), std::chrono::seconds(10));
  EXPECT_DOUBLE_EQ(GoodputOf(run).value(), 0.9);
  run.events.push_back({.text = "recovered", .kind = kEventRecovered});
  EXPECT_EQ(LosingNow(run), Duration(0));
  run.events.pop_back();
  run.outcome = "rank 3 failed";
  EXPECT_EQ(LosingNow(run), Duration(0));
}

// Another node's ranks, or its older word, do not hide that all stand still.
TEST(Headline, StandsWhereNoRankMoves) {
  RunStatus run = Running();
  run.nodes.push_back(run.nodes[0]);
  for (NodeStatus& node : run.nodes) {
    for (RankDetail& rank : node.rank_details.ranks) {
      rank.step_time = std::chrono::milliseconds(100);
      rank.since = std::chrono::seconds(30);
    }
  }
  EXPECT_EQ(HeadlineOf(run).text, "no step for 30.0 s (usual 100 ms)");
  run.nodes[1].rank_details.ranks[0].since = Duration{10};
  EXPECT_EQ(HeadlineOf(run).text, "training: step 7, 100 ms each");
}

}  // namespace
}  // namespace ddprun
