#include "rendezvous/core/startup/startup.h"

#include <gtest/gtest.h>

#include "rendezvous/core/status.h"
#include "rendezvous/core/testing/pair.h"

namespace ddprun {
namespace {

// Two nodes, and how soon each reports that it follows its directive.
struct StartupOfTwo : PairOfNodes {
  std::string Newest(Duration when = 60s) {
    const RunStatus status = StatusOf(scenario.state, scenario.config, At(when));
    return status.startups.empty() ? "" : Describe(status.startups.back());
  }
  void Tell(Node& node, StartTimings timings, Duration when) {
    node.report.start_timings = timings;
    node.Says(At(when));
  }
  // A worker of n0 is killed at 1 s; both nodes host generation 2 at 1.014 s.
  void Restart() {
    Form();
    a.report.start_timings.detect = 2ms;
    a.report.hosting = Hosting::kStopping;
    a.report.failures = {Failure(Killed{9})};
    a.Says(At(1s));
    a.Ends(Outcome::kFailed, {Failure(Killed{9})}, At(1s + 3ms));
    b.Ends(Outcome::kStopped, {}, At(1s + 10ms));
    for (Node* const node : {&a, &b}) {
      node->report.start_timings = {};
      node->Hosts(At(1s + 14ms));
    }
  }
};

TEST_F(StartupOfTwo, TheFirstStartSaysHowLongNodesWereWaitedFor) {
  a.Says(At(0s));
  EXPECT_EQ(Newest(), "");
  b.Says(At(4s));
  a.Hosts(At(4s));
  b.Hosts(At(4s));
  EXPECT_EQ(Newest(), "4000 ms (form 4000)");
  EXPECT_EQ(StatusOf(scenario.state, scenario.config, At(5s)).startups.back().cause, "first start");
  EXPECT_EQ(StatusOf(scenario.state, scenario.config, At(5s)).startups.back().age, 5s);
}

TEST_F(StartupOfTwo, EachPartIsTheSlowestNodesAndPartsDoNotOverlap) {
  Restart();
  EXPECT_EQ(Newest(), "12 ms (detect 2, stop 10 (n1), form 0)");
  Tell(a, {{}, 20ms, 25ms, {}}, 1s + 50ms);
  EXPECT_EQ(Newest(), "12 ms (detect 2, stop 10 (n1), form 0)");
  Tell(b, {{}, 15ms, 40ms, {}}, 1s + 50ms);
  EXPECT_EQ(Newest(), "52 ms (detect 2, stop 10 (n1), form 0, start 20 (n0), load state 20 (n1))");
  Tell(a, {{}, 20ms, 25ms, 65ms}, 1s + 70ms);
  Tell(a, {{}, 20ms, 25ms, 65ms}, 1s + 80ms);  // The same again is one node's word.
  EXPECT_FALSE(scenario.Said("recovered"));
  Tell(b, {{}, 15ms, 40ms, 64ms}, 1s + 90ms);
  const std::string all =
      "77 ms (detect 2, stop 10 (n1), form 0, start 20 (n0), load state 20 (n1), first step 25 "
      "(n0))";
  EXPECT_EQ(Newest(), all);
  EXPECT_TRUE(scenario.Said("recovered in " + all));
  Tell(b, {{}, 15ms, 40ms, 64ms}, 2s);
  EXPECT_FALSE(scenario.Said("recovered"));
}

TEST_F(StartupOfTwo, ItsCauseIsTheFailureThatEndedTheWorld) {
  Restart();
  const Startup newest = StatusOf(scenario.state, scenario.config, At(2s)).startups.back();
  EXPECT_NE(newest.cause.find("killed by signal 9"), std::string::npos) << newest.cause;
  EXPECT_EQ(newest.number, 2u);
  EXPECT_EQ(newest.generation, Generation{2});
  EXPECT_EQ(newest.term, scenario.config.term);
}

TEST_F(StartupOfTwo, AProgramWithoutWordsIsKnownUpToItsStart) {
  Restart();
  Tell(a, {{}, 20ms, {}, {}}, 1s + 50ms);
  Tell(b, {{}, 15ms, {}, {}}, 2s);
  EXPECT_TRUE(scenario.Said(
      "workers run again after 32 ms (detect 2, stop 10 (n1), form 0, start 20 (n0)); "
      "no step is known yet"));
  Tell(a, {{}, 20ms, {}, {}}, 12s);
  EXPECT_FALSE(scenario.Said("run again"));
  EXPECT_FALSE(scenario.Said("recovered"));
  a.report.hosting = Hosting::kStopping;
  a.Says(At(13s));
  EXPECT_FALSE(scenario.Said(" after "));
}

TEST_F(StartupOfTwo, ALateFirstStepEndsTheRecoveryOfAProgramThatHadShownNone) {
  Restart();
  Tell(a, {{}, 20ms, {}, {}}, 1s + 50ms);
  Tell(b, {{}, 15ms, {}, {}}, 1s + 50ms);
  EXPECT_TRUE(scenario.Said("workers run again after 32 ms"));
  Tell(a, {{}, 20ms, {}, 9'500ms}, 11s);
  Tell(b, {{}, 15ms, {}, 9'500ms}, 11s);
  EXPECT_TRUE(scenario.Said("recovered in 9512 ms"));
  EXPECT_EQ(Newest(),
            "9512 ms (detect 2, stop 10 (n1), form 0, start 20 (n0), first step 9480 (n0))");
}

// Of a program that reports no step often one rank prints: the other node shows nothing.
TEST_F(StartupOfTwo, AStepThatWasSeenOnOneNodeIsTheWorldsFirst) {
  Restart();
  Tell(b, {{}, 15ms, {}, {}}, 1s + 50ms);
  a.report.progress_groups = {{.step = 1, .source = ProgressSource::kPrinted}};
  Tell(a, {{}, 20ms, {}, 300ms}, 1s + 310ms);
  EXPECT_TRUE(scenario.Said("recovered in 312 ms"));
}

// Once a step was known there will be one again.
TEST_F(StartupOfTwo, WhereStepsAreKnownTheNextOneIsAwaited) {
  Form();
  Tell(a, {{}, 20ms, {}, 30ms}, 500ms);
  Restart();
  Tell(a, {{}, 20ms, {}, {}}, 1s + 50ms);
  Tell(b, {{}, 15ms, {}, {}}, 1s + 50ms);
  EXPECT_FALSE(scenario.Said("run again"));
  Tell(a, {{}, 20ms, {}, 60ms}, 12s);
  Tell(b, {{}, 15ms, {}, 65ms}, 12s);
  EXPECT_TRUE(scenario.Said("recovered in 77 ms"));
}

TEST_F(StartupOfTwo, AWorldThatEndsBeforeItsFirstStepIsReportedWithTheKnownTimes) {
  Restart();
  Tell(a, {{}, 20ms, {}, {}}, 1s + 50ms);
  a.report.hosting = Hosting::kStopping;
  a.report.failures = {Failure(Killed{9})};
  a.Says(At(2s));
  EXPECT_TRUE(scenario.Said(
      "workers ran again after 12 ms (detect 2, stop 10 (n1), form 0); no step was known"));
}

TEST(Startups, TheLastOnesAreKept) {
  Startups startups;
  World world;
  world.members.resize(1);
  for (std::uint64_t i = 1; i <= kMostStartups + 3; ++i) {
    BeginStartup(startups, std::string(5'000, 'x'), "worker", At(1s));
    NoteStopped(startups, std::string(5'000, 'x'), "worker", "n0", At(2s));
    world.generation = {i};
    NoteFormed(startups, world, {}, At(3s));
  }
  const std::vector<Startup> past = StartupsAt(startups, At(5s));
  ASSERT_EQ(past.size(), kMostStartups);
  EXPECT_EQ(past.front().number, 4u);
  EXPECT_EQ(past.back().age, 4s);
  EXPECT_LE(past.back().cause.size(), 256u);
}

}  // namespace
}  // namespace ddprun
