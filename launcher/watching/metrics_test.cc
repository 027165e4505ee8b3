#include "launcher/watching/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>
#include <set>
#include <sstream>

namespace ddprun {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

NodeView Running() {
  NodeView view{.run_id = "demo", .node = "n1", .scheduler = "nothing that is known"};
  view.phase = AgentPhase::kRunning;
  view.generation = Generation{3};
  view.world_size = 4;
  view.workers = view.alive = 2;
  view.ranks = {{2, 40, Duration{500}, false}, {3, 37, Duration{12'000}, true}};
  return view;
}

TEST(Metrics, TellWhatTheWorkersDo) {
  EXPECT_THAT(MetricsText(Running(), 1000.0),
              AllOf(HasSubstr("\nddprun_generation 3\n"), HasSubstr("\nddprun_last_step 40\n"),
                    HasSubstr("\nddprun_last_step_timestamp_seconds 999.5\n"),
                    HasSubstr("\nddprun_steps_behind_max 3\n"),
                    HasSubstr("\nddprun_slowest_rank 3\n"), HasSubstr("\nddprun_workers_late 1\n"),
                    HasSubstr("\nddprun_agent_state{state=\"running\"} 1\n"),
                    HasSubstr("\nddprun_agent_state{state=\"idle\"} 0\n")));
}

TEST(Metrics, TellTheMachinesFacts) {
  NodeView view = Running();
  view.host = {{"ddprun_node_xid_total", {{"gpu", "3"}, {"xid", "79"}}, 2},
               {"ddprun_node_gpu_lost", {{"gpu", "0"}}, 1},
               {"ddprun_node_gpu_lost", {{"gpu", "1"}}, 0}};
  EXPECT_THAT(MetricsText(view, 0),
              AllOf(HasSubstr("\nddprun_node_xid_total{gpu=\"3\",xid=\"79\"} 2\n"),
                    HasSubstr("\nddprun_node_gpu_lost{gpu=\"0\"} 1\n"
                              "ddprun_node_gpu_lost{gpu=\"1\"} 0\n"),
                    Not(HasSubstr("ddprun_node_gpu_throttled"))));
}

// A number that would say something else than "not known" is not there.
TEST(Metrics, AnUnknownValueIsAbsent) {
  NodeView view = Running();
  view.ranks.clear();
  EXPECT_THAT(MetricsText(view, 0),
              AllOf(Not(HasSubstr("step")), Not(HasSubstr("job_seconds")),
                    Not(HasSubstr("heard_age")), Not(HasSubstr("run_state"))));
}

TEST(Metrics, TheServerTellsTheRun) {
  NodeView view = Running();
  view.run = RunStatus{.phase = "gathering", .phase_since = Duration{2'500}, .waits_for = "n2"};
  view.run->nodes = {
      {.node = "n1", .state = "running", .last_seen = Duration{20}, .in_world = true},
      {.node = "n2", .state = "lost"},
      {.node = "n2", .state = "lost"}};
  view.run->more_nodes = 7;
  view.run->startups = {{}, {.detect = Duration{2}, .stop = Duration{40}}};
  view.run->startups[0].first_step = Duration{5};
  view.run->totals = {{"hang", 3, Duration{1'500}}};
  EXPECT_THAT(MetricsText(view, 0),
              AllOf(HasSubstr("\nddprun_wait_seconds 2.5\n"),
                    HasSubstr("\nddprun_run_state{state=\"gathering\"} 1\n"),
                    HasSubstr("\nddprun_nodes{state=\"lost\"} 2\n"),
                    HasSubstr("\nddprun_nodes{state=\"not listed\"} 7\n"),
                    HasSubstr("\nddprun_node_heartbeat_age_seconds{node=\"n1\"} 0.02\n"),
                    HasSubstr("\nddprun_last_start_seconds{phase=\"stop\"} 0.04\n"),
                    HasSubstr("\nddprun_worlds_ended_total{cause=\"hang\"} 3\n"),
                    HasSubstr("\nddprun_lost_seconds_total{cause=\"hang\"} 1.5\n"),
                    HasSubstr("\nddprun_lost_seconds_total{cause=\"worker\"} 0\n"),
                    HasSubstr("\nddprun_losing_seconds 0\n"), Not(HasSubstr("phase=\"form\"")),
                    Not(HasSubstr("node=\"n2\""))));
}

// Names come from command lines and other machines.
TEST(Metrics, LabelsCannotBreakOut) {
  NodeView view = Running();
  view.node = "a\"} 1\nddprun_evil{x=\"\\\x01";
  EXPECT_THAT(MetricsText(view, 0),
              HasSubstr("node=\"a\\\"} 1\\nddprun_evil{x=\\\"\\\\?\",scheduler="));
}

// Each line is HELP, TYPE or a series of the metric named right before; each name appears once.
TEST(Metrics, AreWellFormed) {
  NodeView view = Running();
  view.run = RunStatus{.phase = "running"};
  std::istringstream text(MetricsText(view, 1.7e9));
  const std::regex series(R"(([a-z_]+)(\{[a-z]+="[^"]*"(,[a-z]+="[^"]*")*\})? -?[0-9.e+]+)");
  std::set<std::string> names;
  std::string name;
  for (std::string line; std::getline(text, line);) {
    std::smatch found;
    if (line.starts_with("# HELP ")) {
      name = line.substr(7, line.find(' ', 7) - 7);
      EXPECT_TRUE(names.insert(name).second) << name;
    } else if (!line.starts_with("# TYPE " + name + " ")) {
      ASSERT_TRUE(std::regex_match(line, found, series)) << line;
      EXPECT_EQ(found[1], name);
    }
  }
  for (const bool of_run : {false, true}) {
    for (const Metric& row : MetricTable(of_run)) {
      EXPECT_TRUE(row.name.starts_with("ddprun_")) << row.name;
      EXPECT_EQ(row.name.ends_with("_total"), row.type == "counter") << row.name;
    }
  }
}

TEST(Readiness, IsThatOfItsWorkersOrOfASpare) {
  NodeView view = Running();
  EXPECT_TRUE(ReadinessOf(view).ready);
  view.starting = true;
  EXPECT_FALSE(ReadinessOf(view).ready);
  view = Running();
  view.leaving = true;
  EXPECT_EQ(ReadinessOf(view).words, "this node is leaving");
  view = {};
  EXPECT_FALSE(ReadinessOf(view).ready);
  view.waiting = WaitReason{.what = WaitFor::kNodes, .have = 1, .need = 2, .want = 2};
  EXPECT_FALSE(ReadinessOf(view).ready);
  EXPECT_THAT(ReadinessOf(view).words, HasSubstr("1 of 2 are here"));
  view.waiting->what = WaitFor::kSpare;
  EXPECT_TRUE(ReadinessOf(view).ready);
}

}  // namespace
}  // namespace ddprun
