// A node that comes after its run has ended, and the next run of that name.
#include <gtest/gtest.h>

#include "rendezvous/core/recovery.h"
#include "rendezvous/testing/driver_testing.h"

namespace ddprun {
namespace {

struct Ended : DriverTest {
  Ended() {
    driver.UseClaim({{"run", {5}, {Ending::kFailed, 3, "rank 0 failed", {}}}}, kMostEndedInClaim,
                    [](const std::vector<EndedRun>&) {});
  }
  static NodeReport ReportOf(const std::string& node, Term term) {
    NodeReport report = FirstReportOf(node, {.min_nodes = 2, .max_nodes = 2});
    report.term = term;
    return report;
  }
  // Of the run that has ended.
  static NodeReport WithWorkers() {
    NodeReport report = ReportOf("n1", {8});
    report.hosting = Hosting::kWorkers;
    report.placement = Placement{};
    report.placement->generation = {5};
    return report;
  }
  std::optional<Directive> Tell(const NodeReport& report) {
    const auto asked = std::make_shared<AskedSync>();
    driver.OnReport(report, asked);
    return asked->told ? std::optional(asked->told->directive) : std::nullopt;
  }

  CoordinatorDriver driver{loop, CoordinatorConfig{.term = {9}}};
};

TEST_F(Ended, AStragglerHearsHowAndIsNotInTheWayOfTheNextRunOfThatName) {
  OnLoop([&] {
    const auto told = Tell(ReportOf("n1", {8}));
    ASSERT_TRUE(told && std::holds_alternative<Finish>(*told));
    EXPECT_EQ(std::get<Finish>(*told).exit_code, 3);
    NodeReport heard = ReportOf("n1", {9});
    heard.sequence = 2;
    heard.echo = told;
    const auto let_go = Tell(heard);
    EXPECT_TRUE(let_go && std::holds_alternative<Wait>(*let_go));
    const auto begun = Tell(ReportOf("n2", {}));
    EXPECT_TRUE(begun && std::holds_alternative<Wait>(*begun));
  });
}

// Seed 605090203166: a server whose nodes were all new gave generation 1 again, and its run ended.
// A node of the world before stood still meanwhile, and began the run anew.
TEST_F(Ended, ANodeOfAnOlderServersWorldIsOfItWhateverItsGeneration) {
  driver.UseClaim({{"run", {5}, {Ending::kFailed, 3, "rank 0 failed", {}}, {8}}}, kMostEndedInClaim,
                  [](const std::vector<EndedRun>&) {});
  OnLoop([&] {
    NodeReport report = ReportOf("n1", {8});
    report.floor = {6};
    report.placement = Placement{.term = {7}, .generation = {6}};
    const auto told = Tell(report);
    EXPECT_TRUE(told && std::holds_alternative<Finish>(*told));
    report.placement->term = {8};  // Of the next run with that name.
    const auto later = Tell(report);
    EXPECT_TRUE(later && std::holds_alternative<Wait>(*later));
  });
}

TEST_F(Ended, ItsEndIsReportedToThoseThatAskForIt) {
  OnLoop([&] {
    const auto status = driver.StatusOfRuns("run");
    ASSERT_TRUE(status && status->size() == 1);
    EXPECT_EQ(status->front().exit_code, 3);
    EXPECT_FALSE(driver.StatusOfRuns("other"));
  });
}

// A pool knows that no node of it is left.
TEST_F(Ended, ForgottenForAnotherItIsInTheWayOfNone) {
  OnLoop([&] {
    (void)Tell(WithWorkers());
    driver.ForgetForAnother("run", [](const NodeId&) { return false; });
    const auto other = Tell(ReportOf("n2", {}));
    EXPECT_TRUE(other && std::holds_alternative<Finish>(*other));
    driver.ForgetForAnother("run", [](const NodeId&) { return true; });
    const auto begun = Tell(ReportOf("n2", {}));
    EXPECT_TRUE(begun && std::holds_alternative<Wait>(*begun));
    EXPECT_EQ(driver.StateOf("run")->newest, Generation{5});
  });
}

// As of a run whose launch was killed.
TEST_F(Ended, ARunWhoseNodesHaveAllLeftIsNotTakenForTheOneToStop) {
  OnLoop([&] {
    driver.SetToken("token");
    const ControlRequest stop{.run_id = "", .verb = ControlVerb::kStop, .token = "token"};
    EXPECT_EQ(driver.OnControl(stop).error().message, "this server has no run");
    NodeReport leaver = ReportOf("n1", {9});
    leaver.run_id = "left";
    leaver.leaving = Leaving::kLeave;
    leaver.echo = Tell(leaver);
    leaver.sequence = 2;
    (void)Tell(leaver);
    NodeReport trains = ReportOf("n2", {9});
    trains.run_id = "trains";
    (void)Tell(trains);
    EXPECT_TRUE(driver.OnControl(stop));
    EXPECT_TRUE(driver.StateOf("trains")->outcome);
    EXPECT_EQ(driver.OnControl(stop).error().message,
              "this server has 2 runs, none of which is active. Name one (ddprun status lists "
              "them)");
  });
}

// They may be in the way of another's.
TEST_F(Ended, AStragglersWorkersAreWaitedFor) {
  OnLoop([&] {
    const auto told = Tell(WithWorkers());
    EXPECT_TRUE(told && std::holds_alternative<Finish>(*told));
    const auto late = Tell(ReportOf("n2", {}));
    ASSERT_TRUE(late && std::holds_alternative<Finish>(*late));
    const std::string& text = std::get<Finish>(*late).text;
    EXPECT_NE(text.find("or the same one 30.0 s after its last node"), std::string::npos) << text;
  });
}

// Short runs that follow each other fast would else shut out the next ones for half a minute.
TEST_F(Ended, RunsThatAllNodesHaveLeftMakeRoom) {
  OnLoop([&] {
    std::vector<EndedRun> runs;
    for (std::size_t i = 0; i < CoordinatorDriver::kMaxRuns; ++i) {
      runs.push_back({"old" + std::to_string(i), {5}, {Ending::kSucceeded, 0, "", {}}});
    }
    driver.UseClaim(runs, kMostEndedRuns, [](const std::vector<EndedRun>&) {});
    driver.TakeOver({}, false);  // A node that comes now learns how they ended.
    for (const EndedRun& run : runs) {
      NodeReport late = ReportOf("n1", {});
      late.run_id = run.run_id;
      late.echo = Tell(late);
      ++late.sequence;
      EXPECT_TRUE(Tell(late));
    }
    NodeReport report = ReportOf("n1", {});
    report.run_id = "new";
    EXPECT_TRUE(Tell(report));
    std::size_t left = 0;
    for (std::size_t i = 0; i < CoordinatorDriver::kMaxRuns; ++i) {
      left += driver.StateOf("old" + std::to_string(i)) != nullptr;
    }
    EXPECT_EQ(left, CoordinatorDriver::kMaxRuns - 1);
  });
}

// Otherwise its claim would tell the next server of a run that may still run, and the first nodes
// of the next run would hear how the old one ended.
TEST_F(Ended, AServerThatWaitedForStragglersInVainLeavesTheRunEnded) {
  OnLoop([&] {
    driver.TakeOver({}, true);
    EXPECT_GT(driver.StaysFor(), Duration{0});
    EXPECT_TRUE(driver.RunsHaveEnded());
    CoordinatorDriver other(loop, CoordinatorConfig{.term = {9}});
    other.TakeOver({}, false);
    EXPECT_FALSE(other.RunsHaveEnded());
  });
}

// Unknown nodes that come and go would else hold all places for as long as a run waits for its
// nodes.
TEST_F(Ended, RunsThatNeverBeganMakeRoomOnceNoNodeIsThere) {
  const auto name = [](std::size_t i) { return "run" + std::to_string(i); };
  const auto come = [&](const std::string& run) {
    NodeReport report = ReportOf("n1", {});
    report.run_id = run;
    return Tell(report).has_value();
  };
  OnLoop([&] {
    for (std::size_t i = 0; i < CoordinatorDriver::kMaxRuns; ++i) {
      EXPECT_TRUE(come(name(i))) << i;
    }
    EXPECT_FALSE(come("new"));
    for (std::size_t i = 0; i < CoordinatorDriver::kMaxRuns; ++i) {
      driver.Handlers().cancel({name(i), "n1", {1}, 1});
    }
  });
  const auto is_left = [&](std::size_t i) {
    const CoordinatorState* const run = driver.StateOf(name(i));
    return run != nullptr && run->index.served == 0;
  };
  std::size_t left = 0;
  const std::function<void()> look = [&] {  // The loop continues meanwhile.
    while (left < CoordinatorDriver::kMaxRuns && is_left(left)) {
      ++left;
    }
    left == CoordinatorDriver::kMaxRuns ? loop.Stop() : loop.Post(look);
  };
  loop.Post(look);
  loop.Run();
  OnLoop([&] {
    EXPECT_TRUE(come("new"));
    EXPECT_NE(driver.StateOf("new"), nullptr);
  });
}

}  // namespace
}  // namespace ddprun
