#include "agent/host/node_check.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <cerrno>
#include <optional>
#include <string>

#include "common/asio_loop.h"
#include "common/files.h"
#include "common/text.h"
#include "rendezvous/testing/pump.h"
#include "tests/support/scratch_directory.h"

namespace ddprun {
namespace {

constexpr Duration kLimit{60'000};

TEST(NodeCheck, OfTwoTheNewerOneHasTheVerdict) {
  AsioLoop loop;
  NodeCheck check(loop, "test $DDPRUN_CHECK_CAUSE = end", kLimit);
  std::optional<std::string> first;
  std::optional<std::string> second;
  check.Run("start", [&](const std::string& verdict) { first = verdict; });
  check.Run("end", [&](const std::string& verdict) { second = verdict; });
  ASSERT_TRUE(PumpUntil(loop, [&] { return second.has_value(); }));
  EXPECT_EQ(*second, "");
  EXPECT_FALSE(first);
}

// Also what is in a session of its own, so that it would outlive its group.
TEST(NodeCheck, NothingIsLeftOfOneThatIsEnded) {
  const ScratchDirectory directory;
  const std::string file = directory.path() / "pid";
  AsioLoop loop;
  NodeCheck check(
      loop,
      "setsid sleep 1000 & echo $! >" + file + ".new; mv " + file + ".new " + file + "; sleep 1000",
      kLimit);
  bool told = false;
  bool ended = false;
  check.Run("start", [&](const std::string&) { told = true; });
  std::optional<pid_t> left;
  ASSERT_TRUE(PumpUntil(loop, [&] {
    const Result<std::string> text = ReadFile(file, 64);
    left = text ? ParseNumber<pid_t>(Trimmed(*text)) : std::nullopt;
    return left.has_value();
  }));
  check.End([&] { ended = true; });
  ASSERT_TRUE(PumpUntil(loop, [&] { return ended; }));
  EXPECT_FALSE(told);
  EXPECT_EQ(::kill(*left, 0), -1);
  EXPECT_EQ(errno, ESRCH);
  ended = false;
  check.End([&] { ended = true; });
  EXPECT_TRUE(ended);
}

}  // namespace
}  // namespace ddprun
