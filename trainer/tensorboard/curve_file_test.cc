#include "trainer/tensorboard/curve_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <vector>

#include "common/log.h"
#include "common/result_testing.h"
#include "tests/support/scratch_directory.h"

namespace ddprun {
namespace {

namespace fs = std::filesystem;

struct CurveFileTest : testing::Test {
  ScratchDirectory scratch;
  const fs::path top = scratch.path();
  const fs::path directory = top / "made" / "curves";

  void SetUp() override { StartLog("test", LogLevel::kInfo); }

  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(directory)) {
      names.push_back(entry.path().filename());
    }
    std::sort(names.begin(), names.end());
    return names;
  }
  std::string Content(const std::string& name) const {
    return ReadFile(directory / name, 1 << 20).value();
  }
  static std::string Start(std::uint64_t second) {
    return "events.out.tfevents." + std::to_string(second) + ".";
  }
};

TEST_F(CurveFileTest, BeginsWithTheStepFromWhichOlderOnesAreVoid) {
  Result<LineFile> file = OpenCurves(directory, 40);
  ASSERT_TRUE(file) << file.error().message;
  const std::vector<Scalar> scalars = {{"train/loss", 0.5}};
  file->Append(CurveRecord(41, scalars));
  file->Finish();
  ASSERT_EQ(Names().size(), 1u);
  const std::string content = Content(Names()[0]);
  const std::size_t version = TfRecord(FileVersionEvent(0)).size();
  const std::size_t session = TfRecord(SessionStartEvent(0, 41)).size();
  ASSERT_EQ(content.size(), version + session + TfRecord(ScalarsEvent(0, 41, scalars)).size());
  // Time's eight bytes apart.
  EXPECT_EQ(content.substr(version + 12 + 9, session - 12 - 9 - 4),
            SessionStartEvent(0, 41).substr(9));
  EXPECT_EQ(content.substr(version + session + 12 + 9, 20),
            ScalarsEvent(0, 41, scalars).substr(9, 20));
}

TEST_F(CurveFileTest, IsNothingWithoutADirectory) {
  Result<LineFile> file = OpenCurves("", 0);
  ASSERT_TRUE(file);
  file->Append(CurveRecord(1, {}));
  file->Finish();
}

// Two starts within a second, or on a machine whose clock is behind: TensorBoard reads on in the
// order of names only.
TEST_F(CurveFileTest, ComesAfterAllThatAreThere) {
  ASSERT_TRUE(MakeCurveFile(directory, 1'800'000'000));
  ASSERT_TRUE(MakeCurveFile(directory, 1'800'000'000));
  ASSERT_TRUE(MakeCurveFile(directory, 1'700'000'000));
  std::ofstream(directory / "events.out.tfevents.1800000100.other.7.0");
  ASSERT_TRUE(MakeCurveFile(directory, 1'800'000'000));
  ASSERT_TRUE(MakeCurveFile(directory, 1'900'000'000));
  const std::vector<std::string> names = Names();
  ASSERT_EQ(names.size(), 6u);
  const std::vector<std::uint64_t> seconds = {1'800'000'000, 1'800'000'001, 1'800'000'002,
                                              1'800'000'100, 1'800'000'101, 1'900'000'000};
  for (std::size_t i = 0; i < names.size(); ++i) {
    EXPECT_EQ(names[i].substr(0, 31), Start(seconds[i]));
  }
  EXPECT_TRUE(names[0].ends_with("." + std::to_string(getpid()) + ".0")) << names[0];
}

// Foreign names: none makes ours longer, and a name without a number counts for nothing.
TEST_F(CurveFileTest, TakesNoNameForMoreThanItIs) {
  fs::create_directories(directory);
  for (const char* const name :
       {"events.out.tfevents.", "events.out.tfevents.99999999999.x.1.0", "events.out.tfevents.-1",
        "events.out.tfevents.18000000zz.x.1.0", "events.out.tfevents.1800000000"}) {
    std::ofstream(directory / name);
  }
  ASSERT_TRUE(MakeCurveFile(directory, 1'750'000'000));
  std::ofstream(directory / "events.out.tfevents.9999999999.x.1.0");
  ASSERT_TRUE(MakeCurveFile(directory, 1'750'000'000));
  ASSERT_TRUE(MakeCurveFile(directory, 1'750'000'000));
  const std::vector<std::string> names = Names();
  EXPECT_EQ(names.size(), 9u);
  const auto count = [&](std::uint64_t second) {
    return std::count_if(names.begin(), names.end(),
                         [&](const std::string& name) { return name.starts_with(Start(second)); });
  };
  EXPECT_EQ(count(1'750'000'000), 1);
  EXPECT_EQ(count(9'999'999'998), 2);
}

TEST_F(CurveFileTest, RefusesWhatIsNoDirectory) {
  std::ofstream(top / "file");
  for (const fs::path& bad : {top / "file", top / "file" / "below", fs::path("/proc/none")}) {
    EXPECT_TRUE(
        Fails(OpenCurves(bad, 0), ErrorKind::kInvalid, "(--tensorboard) in '" + bad.native()))
        << bad;
  }
}

}  // namespace
}  // namespace ddprun
