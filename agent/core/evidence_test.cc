#include "agent/core/evidence.h"

#include <gtest/gtest.h>

namespace ddprun {
namespace {

// It is a worker's word.
TEST(Evidence, ATimeBeforeTheGenerationOrInTheFutureIsIgnored) {
  constexpr std::int64_t kNow = 1'795'263'336'400;
  const auto taken = [](std::int64_t said) {
    FailureDetails details{.unix_ms = said, .error_file = {}, .message = {}, .traceback = {}};
    const std::optional<Duration> ago = TakeTime(details, std::chrono::seconds(10), kNow);
    EXPECT_EQ(details.unix_ms, kNow - ago.value_or(Duration{0}).count());
    return ago;
  };
  EXPECT_EQ(taken(0), std::nullopt);
  EXPECT_EQ(taken(kNow - 10'001), std::nullopt);
  EXPECT_EQ(taken(kNow - 10'000), Duration{10'000});
  EXPECT_EQ(taken(kNow - 3'000), Duration{3'000});
  EXPECT_EQ(taken(kNow + 599), Duration{0});  // This second, which is not over.
  EXPECT_EQ(taken(kNow + 600), std::nullopt);
  EXPECT_EQ(taken(INT64_MAX), std::nullopt);
}

TEST(Evidence, OfManyLinesTheLastOnesAreKept) {
  EXPECT_EQ(LastOf({}), "");
  EXPECT_EQ(LastOf({"a", "b"}), "a\nb\n");
  const std::string last = LastOf({std::string(kMaxLastLines, 'x'), "the cause"});
  EXPECT_EQ(last.size(), kMaxLastLines);
  EXPECT_TRUE(last.ends_with("x\nthe cause\n"));
}

}  // namespace
}  // namespace ddprun
