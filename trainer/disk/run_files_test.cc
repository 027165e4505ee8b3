#include "trainer/disk/run_files.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/support/scratch_directory.h"

namespace ddprun {
namespace {

TEST(RunFiles, ASaveIsReportedOnceAndAStopForAsLongAsItIsThere) {
  const ScratchDirectory scratch;
  const std::filesystem::path directory = scratch.path();
  RunFiles files(directory);
  files.Look();
  EXPECT_FALSE(files.stop() || files.TakeSave());
  std::ofstream(directory / "STOP");
  std::ofstream(directory / "SAVE");
  EXPECT_TRUE(RunFiles::StopAsked(directory));
  for (const bool first : {true, false}) {
    files.Look();
    EXPECT_TRUE(files.stop());
    EXPECT_EQ(files.TakeSave(), first);
    EXPECT_FALSE(std::filesystem::exists(directory / "SAVE"));
  }
  std::filesystem::remove(directory / "STOP");
  files.Look();
  EXPECT_FALSE(files.stop());
}

}  // namespace
}  // namespace ddprun
