#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "trainer/profiler/report.h"
#include "trainer/profiler/schedule.h"

namespace ddprun {
namespace {

TEST(ProfileSchedule, IsThreeOrFourNumbers) {
  EXPECT_EQ(ParseProfileSchedule("1,2,3"), (ProfileSchedule{1, 2, 3, 1}));
  EXPECT_EQ(ParseProfileSchedule("0,0,1,5"), (ProfileSchedule{0, 0, 1, 5}));
  for (const char* const bad : {"", "1", "1,2", "1,2,0", "1,2,3,0", "1,2,3,4,5", "1,,3", "a,b,c",
                                "1,2,3 ", "-1,2,3", "1,2,9999999999"}) {
    EXPECT_FALSE(ParseProfileSchedule(bad)) << bad;
  }
}

TEST(ProfileSchedule, GoesThroughItsPhasesAndRepeats) {
  const ProfileSchedule schedule{2, 1, 2, 2};
  std::string phases;
  for (std::uint64_t step = 0; step < 12; ++step) {
    phases += "-wA"[static_cast<int>(PhaseAt(schedule, step))];
  }
  EXPECT_EQ(phases, "--wAA--wAA--");
}

// A step with two operators in it, one of which calls another, and an all-reduce beside them.
std::vector<ProfiledEvent> Step() {
  return {{"inner", EventKind::kOperator, 1, 20'000'000, 30'000'000, 64},
          {"outer", EventKind::kOperator, 1, 10'000'000, 40'000'000, 64},
          {"outer", EventKind::kOperator, 1, 50'000'000, 60'000'000, 0},
          {"backward", EventKind::kRange, 1, 0, 100'000'000, 64},
          {"gloo:all_reduce", EventKind::kAsync, 1, 35'000'000, 120'000'000, 0},
          {"gloo:all_reduce", EventKind::kAsync, 1, 45'000'000, 90'000'000, 0}};
}

TEST(OperatorTable, CountsOwnTimeOnce) {
  const std::string table = OperatorTable(Step(), 10);
  EXPECT_THAT(table, testing::ContainsRegex("outer +2 +40.000 +30.000"));
  EXPECT_THAT(table, testing::ContainsRegex("inner +1 +10.000 +10.000"));
  EXPECT_THAT(table, testing::ContainsRegex("backward +1 +100.000 +60.000 .* 64 B"));
  EXPECT_THAT(table, testing::ContainsRegex("gloo:all_reduce +2 +130.000 +130.000"));
}

TEST(ChromeTrace, KeepsOverlappingEventsApart) {
  const auto trace = nlohmann::json::parse(ChromeTrace(Step(), 3));
  std::map<std::string, std::vector<nlohmann::json>> by_name;
  for (const auto& event : trace["traceEvents"]) {
    EXPECT_EQ(event["pid"], 3);
    if (event["ph"] == "X") {
      by_name[event["name"]].push_back(event);
    }
  }
  ASSERT_EQ(by_name["gloo:all_reduce"].size(), 2u);
  EXPECT_NE(by_name["gloo:all_reduce"][0]["tid"], by_name["gloo:all_reduce"][1]["tid"]);
  EXPECT_EQ(by_name["backward"][0]["ts"], 0.0);
  EXPECT_EQ(by_name["backward"][0]["dur"], 100'000.0);
  EXPECT_EQ(by_name["inner"][0]["tid"], by_name["outer"][0]["tid"]);
}

TEST(ChromeTrace, OfNothingParses) {
  EXPECT_TRUE(nlohmann::json::parse(ChromeTrace({}, 0)).contains("traceEvents"));
}

}  // namespace
}  // namespace ddprun
