#include "common/text.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <set>

namespace ddprun {
namespace {

// A number with anything behind it would silently mean another one.
TEST(Text, ANumberIsTheWholeText) {
  EXPECT_EQ(ParseNumber<std::uint32_t>("4294967295"), 4'294'967'295U);
  EXPECT_EQ(ParseNumber<std::int64_t>("-3"), -3);
  EXPECT_EQ(ParseNumber<double>("2.5"), 2.5);
  for (const char* const none : {"", " 1", "1 ", "+1", "-1", "0x1", "1,2", "4294967296"}) {
    EXPECT_FALSE(ParseNumber<std::uint32_t>(none)) << none;
  }
}

TEST(Text, RangesNameNumbersThatFollowEachOther) {
  EXPECT_EQ(RangesOf(std::vector<int>{}, ","), "");
  EXPECT_EQ(RangesOf(std::set<int>{7, 0, 1, 2, 4, 5}, ","), "0-2,4-5,7");
}

TEST(Text, ARecordsNumberHasOneSpelling) {
  const auto number = [](std::string_view name) { return NumberOfRecord(name, "fence-", 20); };
  EXPECT_EQ(number("fence-1"), 1U);
  EXPECT_EQ(number("fence-20"), 20U);
  for (const char* other : {"fence-", "fence-0", "fence-07", "fence-+7", "fence-7 ", "fence-21",
                            "fence-99999999999999999999", ".fence-7", "term-7", ""}) {
    EXPECT_FALSE(number(other)) << other;
  }
}

TEST(Text, APartMayBeEmptyButTheLast) {
  using Parts = std::vector<std::string>;
  EXPECT_EQ(Split("", ','), Parts{});
  EXPECT_EQ(Split("a", ','), Parts{"a"});
  EXPECT_EQ(Split(",a,,b,", ','), (Parts{"", "a", "", "b"}));
  EXPECT_EQ(Joined({"a", "b"}, ", "), "a, b");
  EXPECT_EQ(Joined({}, ", "), "");
}

TEST(Text, LettersAndDigitsAreThoseOfAscii) {
  EXPECT_TRUE(IsDigits("007"));
  EXPECT_TRUE(HasOnly("az-AZ_09", "-_"));
  for (const char* const none : {"", "7 ", "\xb2", "\xc3\xa4"}) {
    EXPECT_FALSE(IsDigits(none)) << none;
    EXPECT_FALSE(HasOnly(none, "-")) << none;
  }
  EXPECT_EQ(Uppercase("az-AZ[`{\xe4"), "AZ-AZ[`{\xe4");
  EXPECT_EQ(Lowercase("az-AZ@[`\xc4"), "az-az@[`\xc4");
}

TEST(Text, TheLastLinesOfATextMayHaveNoEnd) {
  const auto last = [](std::string_view text, std::size_t lines) {
    return text.substr(StartOfLastLines(text, lines));
  };
  EXPECT_EQ(last("a\nb\nc\n", 2), "b\nc\n");
  EXPECT_EQ(last("a\nb\nc", 2), "b\nc");
  EXPECT_EQ(last("a\n\n", 1), "\n");
  EXPECT_EQ(last("a\nb", 0), "");
  EXPECT_EQ(last("a\nb", 9), "a\nb");
  EXPECT_EQ(last("", 1), "");
}

TEST(Text, ALongTextIsCutBetweenCharacters) {
  EXPECT_EQ(Shortened("six or", 6), "six or");
  EXPECT_EQ(Shortened("seven b", 6), "sev...");
  EXPECT_EQ(Shortened("né à là", 6), "né...");
  EXPECT_EQ(Shortened("éé à là", 6), "é...");
}

TEST(Text, BlanksAreTakenFromBothEnds) {
  EXPECT_EQ(Trimmed(" \ta b\r\n"), "a b");
  EXPECT_EQ(Trimmed(" \n"), "");
  EXPECT_EQ(Trimmed(""), "");
}

// The replacement text is not searched again.
TEST(Text, EveryPlaceIsReplacedOnce) {
  std::string text = "a.b.";
  ReplaceAll(text, ".", "..");
  EXPECT_EQ(text, "a..b..");
}

}  // namespace
}  // namespace ddprun
