// What the user sees of several workers that print at once, through real pipes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tests/support/launched.h"
#include "tests/support/scratch_directory.h"

namespace ddprun {
namespace {

using ::testing::EndsWith;
using testing::Launched;

std::vector<std::string> Argv(int workers, const std::vector<std::string>& actions) {
  std::vector<std::string> argv = {FAKE_LAUNCH, std::to_string(workers), FAKE_WORKER};
  argv.insert(argv.end(), actions.begin(), actions.end());
  return argv;
}

// A long list that a program prints, or its base64 image.
TEST(WorkerOutputTest, ALineOfManyPiecesIsOneLine) {
  const std::string longest(300'000, 'x');
  ScratchDirectory scratch;
  const std::string text = (scratch.path() / "text").native();
  std::ofstream(text) << longest << "\nend\n";
  Launched launch(Argv(2, {"--on-rank=1", "--print-file=" + text}), {});
  launch.ReadToEnd();
  EXPECT_EQ(launch.output(), longest + "\nend\n");
}

// Rank 1's line comes when half of rank 0's is there.
TEST(WorkerOutputTest, AnothersLineEndsALongOne) {
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

}  // namespace
}  // namespace ddprun
