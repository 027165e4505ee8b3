#include "rendezvous/core/status.h"

#include <gtest/gtest.h>

#include "rendezvous/core/testing/scenario.h"

namespace ddprun {
namespace {

struct Status : testing::Test {
  Scenario scenario;
  RunSpec spec{.min_nodes = 2, .max_nodes = 2, .max_restarts = 3};
  Node a{scenario, "n0", spec};
  Node b{scenario, "n1", spec};

  RunStatus At_(Duration when) { return StatusOf(scenario.state, scenario.config, At(when)); }
};

TEST_F(Status, AGatheringRunNamesTheNodesItWaitsFor) {
  EXPECT_EQ(At_(0s).waits_for, "waiting for a first node");
  a.Says(At(0s));
  const RunStatus status = At_(2s);
  EXPECT_EQ(status.phase, "gathering");
  EXPECT_EQ(status.waits_for, "waiting for nodes: 1 of 2 are here; giving up in 9 min 58 s");
  ASSERT_EQ(status.nodes.size(), 1u);
  EXPECT_EQ(status.nodes[0].state, "ready");
  EXPECT_EQ(status.nodes[0].last_seen, 2s);
}

TEST_F(Status, ARunningOneShowsTheWorldByRankWithSteps) {
  a.Says(At(0s));
  b.Says(At(0s));
  a.Hosts(At(0s));
  EXPECT_EQ(At_(0s).waits_for, "waiting until the workers are started on n1");
  b.report.progress_groups = {{118, "data", 1, 1, 1, 30s}, {120, "reduce", 2, 1, 0, Duration{0}}};
  b.Hosts(At(1s));
  Node spare(scenario, "a9", spec);
  spare.Says(At(1s));
  const RunStatus status = At_(1s);
  EXPECT_EQ(status.waits_for, "");
  EXPECT_EQ(status.generation, Generation{1});
  EXPECT_EQ(status.world_size, 2u);
  ASSERT_EQ(status.nodes.size(), 3u);
  EXPECT_EQ(status.nodes[1].node, "n1");
  EXPECT_EQ(status.nodes[1].state, "running");
  EXPECT_EQ(status.nodes[1].step, 118u);
  EXPECT_EQ(status.nodes[1].phase, "data");
  EXPECT_EQ(status.nodes[1].late, 1u);
  EXPECT_EQ(status.nodes[2].state, "spare");
  EXPECT_FALSE(status.nodes[2].in_world);
}

// It hosts them since it got the directive: their program is on a disk that hangs.
TEST_F(Status, AStartThatLastsIsNoRunningNode) {
  a.Says(At(0s));
  b.Says(At(0s));
  a.Hosts(At(0s));
  b.report.starting = true;
  b.Hosts(At(1s));
  EXPECT_EQ(At_(2s).nodes[0].state, "running");
  EXPECT_EQ(At_(2s).nodes[1].state, "starting");
  EXPECT_EQ(At_(2s).waits_for,
            "waiting until the workers are started on n1, which takes longer than usual (see its "
            "log: is a file system slow?)");
  b.report.starting = false;
  b.Hears(At(3s)).Says(At(3s));
  EXPECT_EQ(At_(3s).nodes[1].state, "running");
  EXPECT_EQ(At_(3s).waits_for, "");
}

TEST_F(Status, ADrainingOneNamesTheCauseAndTheNodesThatAreLeft) {
  FormWorld(At(0s), a, b);
  a.Ends(Outcome::kFailed, {Failure(Exited{1})}, At(1s));
  EXPECT_EQ(At_(1s).waits_for, "stopping generation 1 (a worker failed): waiting for n1");
  b.Ends(Outcome::kStopped, {}, At(2s));
  EXPECT_EQ(At_(2s).restarts_used, 1u);
}

TEST_F(Status, AnEndedOneShowsItsOutcome) {
  a.Says(At(0s));
  a.report.leaving = Leaving::kStopRun;
  a.Says(At(1s));
  const RunStatus status = At_(1s);
  EXPECT_EQ(status.phase, "failed");
  EXPECT_EQ(status.exit_code, 130);
  EXPECT_EQ(status.outcome, "the run was stopped on request");
}

TEST_F(Status, ANodeThatReturnedHasOneRow) {
  FormWorld(At(0s), a, b);
  b.Closes(At(1s));
  scenario.Pass(At(2s));
  ASSERT_EQ(At_(2s).nodes.size(), 2u);
  EXPECT_EQ(At_(2s).nodes[1].state, "lost");
  Node again(scenario, "n1", spec, 2);
  again.Says(At(2s));
  ASSERT_EQ(At_(2s).nodes.size(), 2u);
  EXPECT_NE(At_(2s).nodes[1].state, "lost");
}

TEST_F(Status, LongListsAreCut) {
  for (std::size_t i = 0; i < kMaxListedNodes + 5; ++i) {
    Node(scenario, "m" + std::to_string(i), spec).Says(At(0s));
  }
  const RunStatus status = At_(0s);
  EXPECT_EQ(status.nodes.size(), kMaxListedNodes);
  EXPECT_EQ(status.more_nodes, 5u);
  EXPECT_TRUE(status.nodes[0].in_world && status.nodes[1].in_world);
}

}  // namespace
}  // namespace ddprun
