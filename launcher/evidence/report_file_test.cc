#include "launcher/evidence/report_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "common/asio_loop.h"
#include "common/files.h"
#include "common/json.h"
#include "common/log.h"
#include "common/wall_clock.h"
#include "launcher/evidence/run_page.h"
#include "rendezvous/core/recovery.h"
#include "tests/support/scratch_directory.h"

namespace ddprun {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

const Term kTerm = TermOf(static_cast<std::uint64_t>(UnixMilliseconds()));

class ReportFileTest : public testing::Test {
 protected:
  static RunStatus Running(std::uint64_t step) {
    RunStatus run;
    run.run_id = "demo";
    run.phase = "running";
    run.generation = {1};
    NodeStatus node;
    node.node = "n0";
    node.state = "running";
    node.in_world = true;
    node.workers = 1;
    node.step = step;
    node.rank_details.ranks = {{RankState::kRunning, step, Duration{3}, {}, 0}};
    run.nodes = {node};
    return run;
  }
  static RunStatus Ended() {
    RunStatus run = Running(0);
    run.phase = "failed";
    run.outcome = "rank 0 </script><!-- was killed";
    run.exit_code = 137;
    run.nodes[0].state = "gone";
    run.nodes[0].rank_details = {};
    return run;
  }
  // The last words of a server that ends.
  void Serve(const RunStatus& run, Term term = kTerm) {
    AsioLoop loop;
    ReportFile files(loop, directory_, "demo", "n0");
    files.Begin([&](const RunId&) { return std::optional(run); }, term);
    files.LookLast();
    files.Finish(Duration{10'000});
  }
  std::string File(const char* name) const {
    std::ostringstream text;
    text << std::ifstream(directory_ / name).rdbuf();
    return text.str();
  }
  OrderedJson State() const { return RunInReport(directory_ / kReportFile); }
  std::size_t Files() const {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(directory_), fs::directory_iterator()));
  }

  ScratchDirectory scratch_;
  const fs::path directory_ = scratch_.path();
};

TEST_F(ReportFileTest, TellHowARunEnded) {
  Serve(Ended());
  EXPECT_EQ(State()["run_id"], "demo");
  EXPECT_EQ(State()["exit_code"], 137);
  EXPECT_EQ(State()["headline"], "rank 0 </script><!-- was killed");
  EXPECT_EQ(State()["node"], "n0");
  EXPECT_THAT(File(kReportFile), HasSubstr("rank 0 \\u003c/script>\\u003c!-- was killed"));
  EXPECT_THAT(File(kReportFile), Not(HasSubstr("</script><!--")));
  EXPECT_EQ(Files(), 1u);
}

TEST_F(ReportFileTest, OfARunThatIsNotOverSaySo) {
  Serve(Running(7));
  EXPECT_EQ(State()["headline"], "not over when its server ended: training: step 7");
  EXPECT_THAT(File(kReportFile), HasSubstr("not over when its server ended"));
}

// While the loop runs: nothing before the end, and the end without a request.
TEST_F(ReportFileTest, FollowTheRun) {
  AsioLoop loop;
  ReportFile files(loop, directory_, "demo", "n0");
  RunStatus run = Running(1);
  std::size_t looks = 0;
  files.Begin(
      [&](const RunId&) {
        EXPECT_TRUE(looks != 1 || Files() == 0) << "a second after the first look";
        return std::optional(++looks == 1 ? run : Ended());
      },
      kTerm);
  LoopTimer look(loop);
  std::function<void()> again = [&] {
    if (Files() > 0) {
      loop.Stop();
      return;
    }
    look.ArmAt(loop.Now() + Duration{1}, again);
  };
  loop.Post(again);
  loop.Run();
  files.Finish(Duration{10'000});
  EXPECT_EQ(State()["outcome"], Ended().outcome);
  EXPECT_EQ(State()["step"], 1);  // As it was seen last.
  EXPECT_EQ(State()["nodes"][0]["ranks"]["step"][0], 1);
}

TEST_F(ReportFileTest, AnEntryThatIsNoOrdinaryFileIsLeftAlone) {
  std::ofstream(directory_ / "other") << "mine";
  fs::create_symlink(directory_ / "other", directory_ / kReportFile);
  Serve(Ended());
  EXPECT_TRUE(fs::is_symlink(directory_ / kReportFile));
  EXPECT_EQ(File("other"), "mine");
  EXPECT_EQ(Files(), 2u);
  fs::remove(directory_ / kReportFile);
  ASSERT_EQ(::mkfifo((directory_ / kReportFile).c_str(), 0600), 0);
  Serve(Ended());
  EXPECT_TRUE(fs::is_fifo(directory_ / kReportFile));
}

// A server that stood still comes back when another one has ended the run.
TEST_F(ReportFileTest, AReportOfALaterServerStays) {
  Serve(Ended(), kTerm.Next());
  const std::string report = File(kReportFile);
  Serve(Running(3));
  EXPECT_EQ(State()["phase"], "failed");
  EXPECT_EQ(File(kReportFile), report);
  Serve(Running(4), kTerm.Next().Next());
  EXPECT_EQ(State()["step"], 4);
}

TEST_F(ReportFileTest, AMadeUpTermKeepsNoServerFromWriting) {
  for (const char* const run :
       {R"({"run_id":"demo","term":18446744073709551615})", R"({"run_id":"demo","term":"x"})",
        R"({"run_id":7,"term":[]})", R"({"term":9})", "7", "[[[["}) {
    std::ofstream(directory_ / kReportFile)
        << R"(<script type="application/json">{"state":{"run":)" << run << "}}</script>";
    Serve(Ended());
    EXPECT_EQ(State()["exit_code"], 137) << run;
  }
}

TEST_F(ReportFileTest, AThousandNodesAreWrittenWhole) {
  RunStatus run = Running(1'200);
  const NodeStatus one = run.nodes[0];
  run.nodes.clear();
  for (std::uint32_t i = 0; i < 1'000; ++i) {
    NodeStatus node = one;
    node.node = "n" + std::to_string(i);
    node.first_rank = 8 * i;
    node.workers = 8;
    node.rank_details.ranks.assign(8, one.rank_details.ranks[0]);
    run.nodes.push_back(node);
  }
  Serve(run);
  EXPECT_EQ(State()["nodes"].size(), 1'000u);
  EXPECT_LT(fs::file_size(directory_ / kReportFile), std::size_t{2} << 20);
}

// At its end too, where no loop runs any more.
TEST_F(ReportFileTest, AWriteThatTheDiskRefusesIsSaid) {
  fs::create_directory(directory_ / kReportFile);
  StartLog("ddprun", LogLevel::kWarning);
  testing::internal::CaptureStderr();
  Serve(Ended());
  FlushLog(Duration{1'000});
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("it is not an ordinary file"));
}

// Of a server alone, which knows several.
TEST_F(ReportFileTest, TheFirstRunCountsUntilItIsOver) {
  AsioLoop loop;
  ReportFile files(loop, directory_, "", "");
  RunStatus first = Ended();
  RunStatus second = Running(2);
  second.run_id = "second";
  files.Begin([&](const RunId& run_id) { return std::optional(run_id == "demo" ? first : second); },
              kTerm);
  RunEvent event;
  event.kind = kEventFormed;
  event.number = 1;
  files.Note("demo", event);
  files.Note("second", event);
  files.LookLast();
  files.Finish(Duration{10'000});
  EXPECT_EQ(State()["run_id"], "demo");
}

TEST_F(ReportFileTest, AFileThatIsNoPageHasNoRun) {
  const fs::path file = directory_ / kReportFile;
  EXPECT_EQ(RunInReport(file), OrderedJson::object());
  const std::string begin = R"(<script type="application/json">)";
  for (const std::string& text :
       {std::string(), begin, begin + "{}", begin + "{}</script>", begin + "[]</script>",
        begin + R"({"state":7}</script>)", begin + R"({"state":{"run":[]}}</script>)",
        begin + "{{{</script>"}) {
    std::ofstream(file, std::ios::trunc) << text;
    EXPECT_EQ(RunInReport(file), OrderedJson::object()) << text;
  }
}

}  // namespace
}  // namespace ddprun
