#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <tuple>

#include "launcher/verbs/status.h"
#include "rendezvous/core/testing/scenario.h"

namespace ddprun {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::int64_t kNow = 1'700'000'000;

RunStatus Sample() {
  RunStatus run;
  run.run_id = "demo";
  run.phase = "running";
  run.phase_since = 12s;
  run.generation = {2};
  run.group_size = 2;
  run.world_size = 4;
  run.min_nodes = 1;
  run.max_nodes = 3;
  run.restarts_used = 1;
  run.max_restarts = 3;
  run.nodes = {{"n0#0", "n0", {7}, "running", 300ms, 2, true, 0, 120, "reduce", 0},
               {"n1#0", "n1", {8}, "running", 400ms, 2, true, 2, 118, "data", 1},
               {"n2#0", "n2", {9}, "spare", 500ms, 1, false, 0, 0, "", 0}};
  run.events = {{NoticeLevel::kWarning, "node n3#0 is lost", "", kEventLost}};
  run.events[0].age = 5s;
  return run;
}

struct Status : testing::Test {
  RunStatus run = Sample();
  std::string Text(std::int64_t now = kNow) const { return FormatStatus({run}, "n0:29400", now); }
  nlohmann::json Json() const { return nlohmann::json::parse(StatusJson({run}, "n0:29400", kNow)); }
};

TEST_F(Status, OneRunIsOneScreen) {
  EXPECT_EQ(Text(),
            "run demo: RUNNING for 12.0 s, generation 2 of 2 nodes and 4 workers (--nnodes=1:3), "
            "restarts 1 of 3\n"
            "training: step 118\n"
            "  NODE  HOST  STATE    RANKS  SEEN        STEP  PHASE\n"
            "  n0#0  n0    running  0-1    300 ms ago  120   reduce\n"
            "  n1#0  n1    running  2-3    400 ms ago  118   data (late)\n"
            "  n2#0  n2    spare    -      500 ms ago  -\n"
            "lately:\n"
            "  5.0 s ago: node n3#0 is lost\n");
}

// A node's own description adds no line to the table that others read.
TEST_F(Status, ATextOfOthersStaysInItsLine) {
  const auto lines = [&] {
    const std::string status = Text();
    const std::string listed = FormatStatus({run, run}, "n0:29400", kNow);
    const std::string screen = FormatScreen(run, kNow, 30);
    return std::tuple(std::ranges::count(status, '\n'), std::ranges::count(listed, '\n'),
                      std::ranges::count(screen, '\n'));
  };
  run.nodes[0].reason = "bad";
  run.waits_for = "n0#0 is unfit: bad";
  run.startups = {Startup{.cause = "n0#0: bad", .stop = 1ms}};
  const auto before = lines();
  run.nodes[0].reason += "\n  n9#0  n9  running";
  run.waits_for += "\noutcome: ok";
  run.events[0].text += "\nlately:\n  1 s ago: \x1b[2K";
  run.startups[0].cause += "\nrun demo: ENDED";
  EXPECT_EQ(lines(), before);
  EXPECT_THAT(Text(), Not(HasSubstr("\x1b")));
  EXPECT_THAT(Text(), HasSubstr("bad\\n  n9#0"));
  run.waits_for = "";
  run.outcome = "failed";
  const auto ended = lines();
  run.outcome += "\nmore";
  EXPECT_EQ(lines(), ended);
}

// Of hundreds the rows come first that a reader looks for.
TEST_F(Status, OnAScreenTheOddNodeIsOnTop) {
  run = {};
  run.run_id = "big";
  run.phase = "running";
  for (std::uint32_t i = 0; i < 500; ++i) {
    run.nodes.push_back({"n" + std::to_string(i),
                         "h",
                         {i + 1},
                         "running",
                         Duration{0},
                         1,
                         true,
                         i,
                         1'000,
                         "",
                         i == 321 ? 1u : 0u});
  }
  run.nodes[123].step = 999;
  const std::string text = FormatScreen(run, 0, 24);
  EXPECT_TRUE(text.starts_with("run big: RUNNING")) << text;
  const std::size_t late = text.find("n321");
  const std::size_t behind = text.find("n123");
  EXPECT_LT(late, behind);
  EXPECT_LT(behind, text.find("n0 "));
  EXPECT_LE(std::count(text.begin(), text.end(), '\n'), 24);
  EXPECT_THAT(text, HasSubstr("more"));
}

TEST_F(Status, PreloadProcessesAreALineForEachThatDiffers) {
  for (NodeStatus& node : run.nodes) {
    node.facts = {{"clock", "0 us off", false}, {"preload", "has loaded torch", false}};
  }
  EXPECT_THAT(Text(), HasSubstr("\npreload: has loaded torch\nlately:"));

  run.nodes[1].facts[1].value = "cannot: a\nb";
  EXPECT_THAT(Text(), HasSubstr("\npreload: cannot: a\\nb (n1#0)\n"
                                "preload: has loaded torch (n0#0 and 1 more)\nlately:"));
}

TEST_F(Status, LostTimeIsReportedAsGoodput) {
  run.known = 120s;
  EXPECT_THAT(Text(), Not(HasSubstr("goodput")));
  run.totals = {{"worker", 1, 1s}};
  const std::string text = Text();
  EXPECT_THAT(text, HasSubstr("\ngoodput: 99.1 % of 2 min 00 s\nlately:"));
}

TEST_F(Status, WithoutAStepNeitherRecoveryNorGoodputIsClaimed) {
  run.known = 120s;
  run.totals = {{"worker", 1, 0s}};
  for (NodeStatus& node : run.nodes) {
    node.step = 0;
  }
  run.startups = {Startup{.cause = "x", .age = 3s, .stop = 40ms, .start = 42ms}};
  const std::string text = Text();
  EXPECT_THAT(
      text,
      HasSubstr("\nworkers run again after 82 ms (stop 40, start 42); no step is known yet; "));
  EXPECT_THAT(text, HasSubstr("\ngoodput: unknown"));
}

TEST_F(Status, AStartHasTheWordsOfItsEvent) {
  const auto told = [&](const Startup& startup) {
    run.startups = {startup};
    return Text();
  };
  EXPECT_THAT(told({.form = 4s}), HasSubstr("\nstarting: 4000 ms (form 4000); "));
  EXPECT_THAT(told({.start = 2ms}),
              HasSubstr("\nworkers run after 2 ms (start 2); no step is known yet"));
  EXPECT_THAT(told({.start = 2ms, .first_step = 3ms}), HasSubstr("\nstarted in 5 ms ("));
  EXPECT_THAT(told({.stop = 1ms}), HasSubstr("\nrecovering: 1 ms ("));
  EXPECT_THAT(told({.stop = 1ms, .start = 2ms, .first_step = 3ms}),
              HasSubstr("\nrecovered in 6 ms ("));
}

TEST_F(Status, ARunWithoutANameIsNotCalledNone) {
  run.run_id = "none";
  EXPECT_TRUE(Text().starts_with("run: "));
}

TEST_F(Status, ABadFactOfAMachineIsShownWhereNothingRefusesIt) {
  run.nodes[2].facts = {
      {"gpu3", "Xid 74", true}, {"link.eth0", "lost", true}, {"gpus", "7", false}};
  const std::string text = Text();
  EXPECT_THAT(text, HasSubstr("REASON\n"));
  EXPECT_THAT(text, HasSubstr(" gpu3 Xid 74; link.eth0 lost\n"));
  run.nodes[2].facts = {{"gpus", "7", false}};
  EXPECT_THAT(Text(), Not(HasSubstr("REASON")));
}

TEST_F(Status, WhyANodeIsUnfitIsShownWhereOneIs) {
  run.nodes[2].state = "unfit";
  run.nodes[2].reason = "GPU 3 is gone";
  const std::string text = Text();
  EXPECT_THAT(text,
              HasSubstr("  NODE  HOST  STATE    RANKS  SEEN        STEP  PHASE        REASON\n"
                        "  n0#0  n0    running  0-1    300 ms ago  120   reduce\n"));
  EXPECT_THAT(
      text,
      HasSubstr("  n2#0  n2    unfit    -      500 ms ago  -                  GPU 3 is gone\n"));
  EXPECT_EQ(Json()["runs"][0]["nodes"][2]["reason"], "GPU 3 is gone");
}

// The reason of a node check: its line stays readable, and the JSON has all of it.
TEST_F(Status, ALongReasonIsCut) {
  const std::string reason = "NCCL " + std::string(200, 'x');
  run.nodes[2].reason = reason;
  const std::string text = Text();
  EXPECT_THAT(text, HasSubstr("NCCL xxx"));
  EXPECT_THAT(text, HasSubstr("xxx...\n"));
  EXPECT_THAT(text, Not(HasSubstr(std::string(100, 'x'))));
  EXPECT_EQ(Json()["runs"][0]["nodes"][2]["reason"], reason);
}

TEST_F(Status, TheOutcomeIsReported) {
  run.outcome = "stopped on request";
  run.exit_code = 130;
  EXPECT_THAT(Text(), HasSubstr("\noutcome: stopped on request (exit code 130)\n"));
}

TEST_F(Status, TheSchedulersActionsAreReported) {
  run.requeues = 2;
  run.job_ends_unix = kNow + 4'000;
  EXPECT_THAT(Text(), HasSubstr("restarts 1 of 3, requeued 2 times, the job ends in 1 h 06 min\n"));
  EXPECT_THAT(Text(kNow + 4'000), HasSubstr("the job's time is over"));
  const auto json = Json();
  EXPECT_EQ(json["runs"][0]["requeues"], 2);
  EXPECT_EQ(json["runs"][0]["job_seconds_left"], 4'000);
}

TEST_F(Status, SeveralRunsAreListed) {
  const std::string text = FormatStatus({Sample(), Sample()}, "n0:29400", kNow);
  EXPECT_TRUE(text.starts_with("2 runs at n0:29400 (--rdzv-id=NAME shows one of them):\n")) << text;
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 3);
  EXPECT_EQ(FormatStatus({}, "n0:29400", kNow), "the server at n0:29400 has no run yet\n");
}

// From what nodes say to the screen, in one go: so a new field needs one test.
TEST_F(Status, ARunsStateReachesTheScreen) {
  Scenario scenario;
  Node node(scenario, "n0", {.min_nodes = 2, .max_nodes = 2, .max_restarts = 3});
  node.Says(At(0s));
  EXPECT_EQ(FormatStatus({StatusOf(scenario.state, scenario.config, At(2s))}, "n0:29400", kNow),
            "run run: GATHERING for 2.0 s (--nnodes=2), restarts 0 of 3\n"
            "waiting for nodes: 1 of 2 are here; giving up in 9 min 58 s\n"
            "  NODE  HOST  STATE  RANKS  SEEN       STEP  PHASE\n"
            "  n0    n0    ready  -      2.0 s ago  -\n");
}

TEST_F(Status, JsonHasItAll) {
  run.events[0].text = "\xff";
  const auto json = Json();
  EXPECT_EQ(json["endpoint"], "n0:29400");
  const auto& told = json["runs"][0];
  EXPECT_EQ(told["phase"], "running");
  EXPECT_EQ(told["phase_seconds"], 12.0);
  EXPECT_EQ(told["exit_code"], nullptr);
  EXPECT_EQ(told["nodes"][1]["step"], 118);
  EXPECT_EQ(told["nodes"][2]["first_rank"], nullptr);
  EXPECT_EQ(told["events"][0]["warning"], true);
  ForEach(kRunStatusFields, [&](const auto& row) { EXPECT_TRUE(told.contains(row.json)); });
  ForEach(kNodeStatusFields,
          [&](const auto& row) { EXPECT_TRUE(told["nodes"][0].contains(row.json)) << row.json; });
}

}  // namespace
}  // namespace ddprun
