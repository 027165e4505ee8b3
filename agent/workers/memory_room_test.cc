#include "agent/workers/memory_room.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support/scratch_directory.h"

namespace ddprun {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

class MemoryRoomTest : public testing::Test {
 protected:
  static void Write(const fs::path& file, const std::string& text) {
    fs::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }

  MemoryFiles Files(bool unified) const {
    return {.proc = proc_, .cgroup = Cgroup{folder_ / "top/job", folder_ / "top", unified}};
  }

  ScratchDirectory scratch_;
  const fs::path folder_ = scratch_.path();
  const fs::path proc_ = folder_ / "proc";
};

TEST_F(MemoryRoomTest, IsWhatTheMachineHasAvailable) {
  Write(proc_ / "meminfo", "MemTotal: 8388608 kB\nMemFree: 1 kB\nMemAvailable: 4096 kB\n");

  EXPECT_EQ(MemoryRoom({.proc = proc_}), 4 * kMiB);
}

TEST_F(MemoryRoomTest, IsUnknownWhereTheKernelDoesNotSay) {
  EXPECT_EQ(MemoryRoom({.proc = proc_}), std::nullopt);
  EXPECT_EQ(WhyNoRoom(kMiB, {.proc = proc_}), "");
}

TEST_F(MemoryRoomTest, IsTheLeastThatAControlGroupOrOneAboveItLeaves) {
  Write(proc_ / "meminfo", "MemAvailable: 1048576 kB\n");
  Write(folder_ / "top/memory.max", std::to_string(100 * kMiB));
  Write(folder_ / "top/memory.current", std::to_string(90 * kMiB));
  Write(folder_ / "top/job/memory.max", "max\n");
  Write(folder_ / "top/job/memory.current", std::to_string(80 * kMiB));

  EXPECT_EQ(MemoryRoom(Files(true)), 10 * kMiB);
}

TEST_F(MemoryRoomTest, CountsFilePagesThatWereNotReadLatelyAsFree) {
  Write(folder_ / "top/job/memory.limit_in_bytes", std::to_string(100 * kMiB));
  Write(folder_ / "top/job/memory.usage_in_bytes", std::to_string(100 * kMiB));
  Write(folder_ / "top/job/memory.stat",
        "inactive_file 1\ntotal_inactive_file " + std::to_string(30 * kMiB) + "\n");

  EXPECT_EQ(MemoryRoom(Files(false)), 30 * kMiB);
}

TEST_F(MemoryRoomTest, IsNothingInAGroupBeyondItsLimit) {
  Write(folder_ / "top/memory.max", std::to_string(10 * kMiB));
  Write(folder_ / "top/memory.current", std::to_string(11 * kMiB));

  EXPECT_EQ(MemoryRoom(Files(true)), 0U);
}

TEST_F(MemoryRoomTest, TheReasonNamesBothFigures) {
  Write(proc_ / "meminfo", "MemAvailable: 4096 kB\n");

  EXPECT_EQ(WhyNoRoom(4 * kMiB, {.proc = proc_}), "");
  EXPECT_EQ(WhyNoRoom(5 * kMiB, {.proc = proc_}),
            "5 MiB of memory are needed, but only 4 are free");
}

TEST_F(MemoryRoomTest, ThereIsNoneWhileProcessesWaitForMemory) {
  Write(proc_ / "meminfo", "MemAvailable: 4096 kB\n");
  Write(proc_ / "pressure/memory", "some avg10=0.99 avg60=0.00 avg300=0.00 total=1\n");
  EXPECT_EQ(WhyNoRoom(kMiB, {.proc = proc_}), "");

  Write(proc_ / "pressure/memory", "some avg10=10.00 avg60=0.00 avg300=0.00 total=1\n");
  EXPECT_EQ(WhyNoRoom(kMiB, {.proc = proc_}), "processes wait for memory");
}

}  // namespace
}  // namespace ddprun
