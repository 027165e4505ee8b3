#include "agent/host/node_check.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "common/asio_loop.h"
#include "rendezvous/testing/pump.h"

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

}  // namespace
}  // namespace ddprun
