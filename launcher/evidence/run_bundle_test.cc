#include "launcher/evidence/run_bundle.h"

#include <gtest/gtest.h>

#include "common/asio_loop.h"
#include "common/files.h"
#include "common/json.h"
#include "tests/support/scratch_directory.h"

namespace ddprun {
namespace {

namespace fs = std::filesystem;
using std::chrono_literals::operator""s;

struct RunBundles : testing::Test {
  ScratchDirectory scratch;
  const fs::path place = scratch.path();
  AsioLoop loop;
  RunBundle bundle{loop, place, "node7"};
  std::uint64_t number = 0;

  RunBundles() {
    bundle.Begin(
        [](const RunId& run_id) {
          RunStatus run;
          run.run_id = run_id;
          run.generation = {4};
          return std::optional(run);
        },
        {9});
  }

  void Tell(const char* kind, const std::string& cause, const std::string& text,
            std::int64_t when = 1'000'000, Term term = {9}) {
    RunEvent event;
    event.kind = kind;
    event.cause = cause;
    event.text = text;
    event.generation = {4};
    event.term = term;
    event.number = ++number;
    event.when = {when};
    bundle.Note("run", event);
  }
  std::string Text(const std::string& name) {
    bundle.Finish(10s);
    const Result<std::string> text = ReadFile(place / "evidence-4" / name, 1 << 20);
    return text ? *text : "";
  }
};

TEST_F(RunBundles, OfAHangTheVerdictComesFirst) {
  Tell(kEventFormed, "", "long ago", 1'000'000 - RunBundle::kBeforeMs - 1);
  Tell(kEventFormed, "", "formed");
  Tell(kEventHung, "hang", "rank 2 hung");
  EXPECT_EQ(Text("verdict.txt"), "rank 2 hung\n");
  const std::string events = Text("events.jsonl");
  EXPECT_EQ(std::count(events.begin(), events.end(), '\n'), 2) << events;
  EXPECT_EQ(events.find("long ago"), std::string::npos) << events;
  const nlohmann::json state = ParseJson(Text("state.json"));
  ASSERT_TRUE(state.is_object());
  EXPECT_EQ(state["generation"], 4);
  EXPECT_EQ(state["node"], "node7");
}

TEST_F(RunBundles, LaterEvidenceIsAdded) {
  Tell(kEventHung, "hang", "rank 2 hung");
  Tell(kEventStopping, "hang", "stopping generation 4");
  Tell(kEventRestarting, "hang", "restarting all workers");
  Tell(kEventEnded, "", "ended well, later");
  EXPECT_EQ(Text("verdict.txt"), "rank 2 hung\nrestarting all workers\n");
}

TEST_F(RunBundles, OfAFailureTheVerdictIsWhatWasFoundOfIt) {
  Tell(kEventStopping, "worker", "stopping generation 4: a worker failed");
  Tell(kEventEnded, "", "the run failed: rank 1 exited with 3");
  EXPECT_EQ(Text("verdict.txt"), "the run failed: rank 1 exited with 3\n");
  EXPECT_NE(Text("state.json"), "");
}

TEST_F(RunBundles, OfPlannedStopsAndEarlierServersNothingIsKept) {
  Tell(kEventStopping, "scale_up", "stopping generation 4: another node has come");
  Tell(kEventStopped, "scale_up", "it has");
  Tell(kEventHung, "hang", "an earlier server's", 1'000'000, {8});
  EXPECT_EQ(Text("verdict.txt"), "");
  EXPECT_TRUE(fs::is_empty(place));
}

}  // namespace
}  // namespace ddprun
