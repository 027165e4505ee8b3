#include "common/cgroup.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <string>

namespace ddprun {
namespace {

constexpr const char* kFirst =
    "30 29 0:26 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"
    "31 29 0:27 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory\n";
constexpr const char* kUnified = "32 29 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n";

std::string Memory(const std::string& membership, const std::string& mounts) {
  const std::optional<Cgroup> found = FindCgroup(membership, mounts, "memory");
  return found ? found->folder.native() + (found->unified ? " 2" : " 1") : "";
}

TEST(Cgroup, EachVersionHasItsOwnPlace) {
  EXPECT_EQ(Memory("5:cpuset:/a\n4:memory:/slurm/job_1\n0::/\n", kFirst),
            "/sys/fs/cgroup/memory/slurm/job_1 1");
  EXPECT_EQ(Memory("0::/system.slice/job_1\n", kUnified), "/sys/fs/cgroup/system.slice/job_1 2");
  EXPECT_EQ(Memory("4:memory:/\n", kFirst), "/sys/fs/cgroup/memory 1");
}

// Version 2 is often mounted beside version 1, without its controllers.
TEST(Cgroup, WhereBothAreThereTheFirstHasTheController) {
  const std::string both = std::string(kFirst) + "33 29 0:28 / /unified rw - cgroup2 cgroup2 rw\n";
  EXPECT_EQ(Memory("4:memory:/x\n0::/y\n", both), "/sys/fs/cgroup/memory/x 1");
  EXPECT_EQ(Memory("0::/y\n", both), "/unified/y 2");
}

// A container's mount begins in the middle of the tree that its processes are named in.
TEST(Cgroup, AContainerSeesAPart) {
  const std::string part =
      std::string(kFirst) +
      "40 31 0:27 /docker/0a /sys/fs/cgroup/memory ro,relatime - cgroup cgroup rw,memory\n";
  EXPECT_EQ(Memory("4:memory:/docker/0a\n", part), "/sys/fs/cgroup/memory 1");
  EXPECT_EQ(Memory("4:memory:/docker/0a/step\n", part), "/sys/fs/cgroup/memory/step 1");
  const std::string alone = part.substr(part.find("40 31"));
  EXPECT_EQ(Memory("4:memory:/docker/0ab\n", alone), "");
  EXPECT_EQ(Memory("4:memory:/../other\n", alone), "");
}

TEST(Cgroup, ATextThatIsNoTableHasNoPlace) {
  for (const char* text : {"", "\n", "4", "4:memory", "0::", "31 29 - cgroup", " - - -\n"}) {
    EXPECT_EQ(Memory(text, kFirst), "") << text;
    EXPECT_EQ(Memory("4:memory:/a\n", text), "") << text;
  }
}

class Quota : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(top_ / "pod" / "step"); }
  void TearDown() override { std::filesystem::remove_all(top_); }
  void Write(const std::filesystem::path& name, const std::string& text) {
    std::ofstream(top_ / name) << text << "\n";
  }
  std::optional<double> Of(bool unified) {
    return CpuQuota({top_ / "pod" / "step", top_, unified});
  }
  const std::filesystem::path top_ =
      std::filesystem::path(::testing::TempDir()) / ("cgroup_test" + std::to_string(::getpid()));
};

TEST_F(Quota, IsTheSmallestOnTheWayUp) {
  EXPECT_EQ(Of(true), std::nullopt);
  Write("pod/step/cpu.max", "max 100000");
  EXPECT_EQ(Of(true), std::nullopt);
  Write("pod/cpu.max", "800000 100000");
  EXPECT_EQ(Of(true), 8);
  Write("pod/step/cpu.max", "250000 100000");
  EXPECT_EQ(Of(true), 2.5);
  Write("cpu.max", "100000 100000");
  EXPECT_EQ(Of(true), 1);
}

TEST_F(Quota, OfVersionOneStandsInTwoFiles) {
  Write("pod/cpu.cfs_quota_us", "-1");
  Write("pod/cpu.cfs_period_us", "100000");
  EXPECT_EQ(Of(false), std::nullopt);
  Write("pod/cpu.cfs_quota_us", "50000");
  EXPECT_EQ(Of(false), 0.5);
  Write("pod/cpu.cfs_period_us", "none");
  EXPECT_EQ(Of(false), std::nullopt);
}

TEST(WithinCpuQuota, IsNeverNoneAndNeverMore) {
  EXPECT_EQ(WithinCpuQuota(0), 1U);
  EXPECT_LE(WithinCpuQuota(4), 4U);
}

}  // namespace
}  // namespace ddprun
