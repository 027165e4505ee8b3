// How far a clock is off, by what a call's two ends say.
#include "rendezvous/messages/host_fact.h"

#include <gtest/gtest.h>

namespace ddprun {
namespace {

// A report that is 30 us under way, 1,000 us at the server, and its answer 50 us on its way back.
TEST(ClockOffset, IsRightByAsMuchAsTheCallWasUnderWay) {
  for (const std::int64_t ahead : {0, 2'000'000, -2'000'000}) {
    const std::int64_t sent = 1'000'000'000;
    const auto offset = OffsetOf(sent, sent + 30 + ahead, sent + 1'030 + ahead, sent + 1'080);
    ASSERT_TRUE(offset);
    EXPECT_LE(std::abs(offset->microseconds - ahead), offset->within);
    EXPECT_EQ(offset->within, 41);
  }
}

TEST(ClockOffset, AnImpossibleOffsetIsNone) {
  EXPECT_EQ(OffsetOf(0, 5, 6, 7), std::nullopt);
  EXPECT_EQ(OffsetOf(5, 0, 0, 7), std::nullopt);  // A server that does not tell.
  EXPECT_EQ(OffsetOf(5, 9, 8, 7), std::nullopt);
  EXPECT_EQ(OffsetOf(8, 5, 6, 7), std::nullopt);
  EXPECT_EQ(OffsetOf(5, 5, 60, 7), std::nullopt);  // Longer at the server than in all.
  EXPECT_NE(OffsetOf(1, INT64_MAX, INT64_MAX, 2), std::nullopt);
  EXPECT_EQ(OffsetOf(INT64_MAX - 1, 1, INT64_MAX, INT64_MAX), std::nullopt);
}

}  // namespace
}  // namespace ddprun
