#include "agent/watch/memory_kills.h"

#include <gtest/gtest.h>
#include <signal.h>

namespace ddprun {
namespace {

constexpr const char* kFirst =
    "30 29 0:26 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"
    "31 29 0:27 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory\n";
constexpr const char* kUnified = "32 29 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n";

TEST(MemoryKills, EachVersionHasItsOwnFile) {
  EXPECT_EQ(OomCounterPath("5:cpuset:/a\n4:memory:/slurm/job_1\n0::/\n", kFirst),
            "/sys/fs/cgroup/memory/slurm/job_1/memory.oom_control");
  EXPECT_EQ(OomCounterPath("0::/system.slice/job_1\n", kUnified),
            "/sys/fs/cgroup/system.slice/job_1/memory.events");
  EXPECT_EQ(OomCounterPath("4:memory:/\n", kFirst), "/sys/fs/cgroup/memory/memory.oom_control");
}

// Version 2 is often mounted beside version 1, without the memory.
TEST(MemoryKills, WhereBothAreThereTheFirstHasTheMemory) {
  const std::string both = std::string(kFirst) + "33 29 0:28 / /unified rw - cgroup2 cgroup2 rw\n";
  EXPECT_EQ(OomCounterPath("4:memory:/x\n0::/y\n", both),
            "/sys/fs/cgroup/memory/x/memory.oom_control");
  EXPECT_EQ(OomCounterPath("0::/y\n", both), "/unified/y/memory.events");
}

// A container's mount begins in the middle of the tree that its processes are named in.
TEST(MemoryKills, AContainerSeesAPart) {
  const std::string part =
      std::string(kFirst) +
      "40 31 0:27 /docker/0a /sys/fs/cgroup/memory ro,relatime - cgroup cgroup rw,memory\n";
  EXPECT_EQ(OomCounterPath("4:memory:/docker/0a\n", part),
            "/sys/fs/cgroup/memory/memory.oom_control");
  EXPECT_EQ(OomCounterPath("4:memory:/docker/0a/step\n", part),
            "/sys/fs/cgroup/memory/step/memory.oom_control");
  const std::string alone = part.substr(part.find("40 31"));
  EXPECT_EQ(OomCounterPath("4:memory:/docker/0ab\n", alone), "");
  EXPECT_EQ(OomCounterPath("4:memory:/../other\n", alone), "");
}

TEST(MemoryKills, WhatIsNoTableHasNoFile) {
  for (const char* text : {"", "\n", "4", "4:memory", "0::", "31 29 - cgroup", " - - -\n"}) {
    EXPECT_EQ(OomCounterPath(text, kFirst), "") << text;
    EXPECT_EQ(OomCounterPath("4:memory:/a\n", text), "") << text;
  }
}

TEST(MemoryKills, OnlyWhoWasKilledIsNamed) {
  const std::uint64_t never = ~std::uint64_t{0};
  EXPECT_EQ(WithMemoryKill({}, Killed{SIGKILL}, never).message, "");
  EXPECT_EQ(WithMemoryKill({.message = "own"}, Killed{SIGKILL}, 0).message, "own");
  EXPECT_EQ(WithMemoryKill({}, Exited{1}, 0).message, "");
}

}  // namespace
}  // namespace ddprun
