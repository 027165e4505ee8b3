#include "rendezvous/listener/log_rate_limiter.h"

#include <gtest/gtest.h>

namespace ddprun {
namespace {

using std::chrono_literals::operator""s;

Time After(Duration since) {
  return Time{std::chrono::seconds(1'000) + since};
}

TEST(LogRateLimiter, FiveOfAReasonAndThenTheirNumber) {
  LogRateLimiter limiter;
  int said = 0;
  for (int i = 0; i < 250; ++i) {
    said += limiter.Allow("a call was refused", After(i < 200 ? 0s : 9s)) ? 1 : 0;
  }
  EXPECT_EQ(said, 5);
  EXPECT_EQ(limiter.NextSuppressed(), After(10s));
  EXPECT_TRUE(limiter.Suppressed(After(9s)).empty());
  EXPECT_EQ(limiter.Suppressed(After(10s)),
            std::vector<std::string>{"a call was refused (245 times more)"});
  EXPECT_EQ(limiter.NextSuppressed(), std::nullopt);
  EXPECT_TRUE(limiter.Allow("a call was refused", After(10s)));
}

TEST(LogRateLimiter, ALineSaidInFullIsNotSummedUp) {
  LogRateLimiter limiter;
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE(limiter.Allow("a call was refused", After(0s)));
  }
  EXPECT_TRUE(limiter.Suppressed(After(10s)).empty());
}

TEST(LogRateLimiter, ReasonsAreCountedApart) {
  LogRateLimiter limiter;
  for (int i = 0; i < 10; ++i) {
    limiter.Allow("no token", After(0s));
  }
  EXPECT_TRUE(limiter.Allow("a wrong token", After(1s)));
  EXPECT_EQ(limiter.Suppressed(After(10s)), std::vector<std::string>{"no token (5 times more)"});
  EXPECT_EQ(limiter.NextSuppressed(), After(11s));
}

TEST(LogRateLimiter, EndlessReasonsAreOne) {
  LogRateLimiter limiter;
  int said = 0;
  for (int i = 0; i < 10'000; ++i) {
    said += limiter.Allow("key of " + std::to_string(i) + " bytes", After(0s)) ? 1 : 0;
  }
  EXPECT_EQ(said, static_cast<int>(kMostReasons + kLinesPerReason));
}

}  // namespace
}  // namespace ddprun
