#include "agent/watch/timer_request.h"

#include <gtest/gtest.h>

namespace ddprun {
namespace {

TEST(TimerRequest, AskedForAndTakenBack) {
  EXPECT_EQ(ParseTimerRequest(R"({"version": 1, "pid": 42, "scope_id": "step", )"
                              R"("expiration_time": 12.5, "signal": 9})"),
            (TimerRequest{42, "step", 12.5, 9}));
  EXPECT_EQ(ParseTimerRequest(R"({"pid":42,"scope_id":"s","expiration_time":-1,"signal":0})"),
            (TimerRequest{42, "s", -1, 0}));
  EXPECT_EQ(ParseTimerRequest(R"({"pid":42,"scope_id":"s","expiration_time":1,"signal":-3})"),
            (TimerRequest{42, "s", 1, 0}));
}

// kill(0) and kill(-1) would reach every process.
TEST(TimerRequest, NothingElseIsOne) {
  for (const char* line : {"", "{", "[]", "1", R"({"pid":42,"scope_id":"s","expiration_time":1})",
                           R"({"pid":0,"scope_id":"s","expiration_time":1,"signal":9})",
                           R"({"pid":-1,"scope_id":"s","expiration_time":1,"signal":9})",
                           R"({"pid":"42","scope_id":"s","expiration_time":1,"signal":9})",
                           R"({"pid":42,"scope_id":7,"expiration_time":1,"signal":9})",
                           R"({"pid":42,"scope_id":"s","expiration_time":"soon","signal":9})",
                           R"({"pid":42,"scope_id":"s","expiration_time":1,"signal":65})"}) {
    EXPECT_FALSE(ParseTimerRequest(line)) << line;
  }
}

}  // namespace
}  // namespace ddprun
