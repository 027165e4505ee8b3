#include "agent/watch/memory_kills.h"

#include <gtest/gtest.h>
#include <signal.h>

namespace ddprun {
namespace {

TEST(MemoryKills, OnlyKilledWorkersAreNamed) {
  const std::uint64_t never = ~std::uint64_t{0};
  EXPECT_EQ(WithMemoryKill({}, Killed{SIGKILL}, never).message, "");
  EXPECT_EQ(WithMemoryKill({.message = "own"}, Killed{SIGKILL}, 0).message, "own");
  EXPECT_EQ(WithMemoryKill({}, Exited{1}, 0).message, "");
}

}  // namespace
}  // namespace ddprun
