// What the user sees of several workers that print at once, through real pipes.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <fstream>
#include <map>
#include <sstream>

#include "tests/support/launched.h"
#include "tests/support/marked.h"
#include "tests/support/scratch_directory.h"

namespace ddprun {
namespace {

using ::testing::EndsWith;
using ::testing::IsEmpty;
using testing::Launched;

std::vector<std::string> Argv(int workers, const std::vector<std::string>& actions) {
  std::vector<std::string> argv = {FAKE_LAUNCH, std::to_string(workers), FAKE_WORKER};
  argv.insert(argv.end(), actions.begin(), actions.end());
  return argv;
}

class WorkerOutputTest : public ::testing::Test {
 protected:
  testing::ProcessMark mark_;
};

// Stdout and stderr of eight workers into one pipe: 16 writers, no torn line, none lost.
TEST_F(WorkerOutputTest, LinesOfManyWorkersStayWhole) {
  constexpr int kWorkers = 8;
  constexpr int kLines = 2000;
  Launched launch(Argv(kWorkers, {"--lines=2000", "--lines-err=2000"}), {.stderr_to_stdout = true});
  launch.ReadToEnd();
  EXPECT_EQ(launch.Wait(), ExitStatus(Exited{0}));
  std::map<std::pair<int, int>, int> seen;
  std::istringstream output(launch.output());
  for (std::string line; std::getline(output, line);) {
    int rank = -1;
    int number = -1;
    ASSERT_EQ(std::sscanf(line.c_str(), "rank %d line %d ", &rank, &number), 2) << line;
    ASSERT_THAT(line,
                EndsWith(std::string(static_cast<std::size_t>(number * 37 % 200), 'x') + " END"));
    ++seen[{rank, number}];
  }
  EXPECT_EQ(seen.size(), static_cast<std::size_t>(kWorkers * kLines));
  for (const auto& [line, times] : seen) {
    EXPECT_EQ(times, 2);
  }
}

TEST_F(WorkerOutputTest, ThePartialLastLineIsShown) {
  Launched launch(Argv(2, {"--on-rank=1", "--print-raw=the end", "--signal=9"}), {});
  launch.ReadToEnd();
  EXPECT_EQ(launch.output(), "the end\n");
}

// A long list that a program prints, or its base64 image.
TEST_F(WorkerOutputTest, ALineOfManyPiecesIsOneLine) {
  const std::string longest(300'000, 'x');
  ScratchDirectory scratch;
  const std::string text = (scratch.path() / "text").native();
  std::ofstream(text) << longest << "\nend\n";
  Launched launch(Argv(2, {"--on-rank=1", "--print-file=" + text}), {});
  launch.ReadToEnd();
  EXPECT_EQ(launch.output(), longest + "\nend\n");
}

// Rank 1's line comes when half of rank 0's is there.
TEST_F(WorkerOutputTest, AnothersLineEndsALongOne) {
  const std::string half(100'000, 'x');
  ScratchDirectory scratch;
  const std::string text = (scratch.path() / "text").native();
  const std::string go = (scratch.path() / "go").native();
  std::ofstream(text) << half;
  Launched launch(
      Argv(2, {"--on-rank=0", "--print-file=" + text, "--wait-file=" + go + ".1", "--always",
               "--on-rank=1", "--wait-file=" + go, "--print=short", "--touch=" + go + ".1",
               "--always", "--on-rank=0", "--wait-file=" + go + ".2", "--print-file=" + text}),
      {});
  ASSERT_TRUE(launch.ReadUntil("x"));
  std::ofstream(go).close();
  ASSERT_TRUE(launch.ReadUntil("short\n"));
  std::ofstream(go + ".2").close();
  launch.ReadToEnd();
  const std::size_t at = launch.output().find("short");
  ASSERT_NE(at, std::string::npos);
  EXPECT_EQ(launch.output()[at - 1], '\n');
  std::string rest = launch.output();
  std::erase(rest, '\n');
  EXPECT_EQ(rest.size(), 2 * half.size() + std::string("short").size());
  EXPECT_THAT(launch.output(), EndsWith("x\n"));
}

// `ddprun ... | head`: training is worth more than its output.
TEST_F(WorkerOutputTest, AClosedStdoutStopsNobody) {
  Launched launch(Argv(2, {"--spew=8"}), {});
  ASSERT_TRUE(launch.ReadUntil("END"));
  launch.CloseOutput();
  EXPECT_EQ(launch.Wait(), ExitStatus(Exited{0}));
}

// Nobody reads our stdout (a stopped pager): the workers wait in their writes, memory stays small,
// and the agent still hears signals.
TEST_F(WorkerOutputTest, ABlockedStdoutFreezesNothing) {
  ScratchDirectory scratch;
  Launched launch(Argv(2, {"--touch=" + (scratch.path() / "%r").native(), "--spew=500"}), {});
  ASSERT_TRUE(launch.ReadUntil("END"));
  ::kill(launch.pid(), SIGTERM);
  EXPECT_EQ(launch.Wait(), ExitStatus(Exited{128 + SIGTERM}));
  EXPECT_THAT(mark_.Living(), IsEmpty());
}

}  // namespace
}  // namespace ddprun
