#include "launcher/verbs/log_merge.h"

#include <gtest/gtest.h>

#include "launcher/verbs/logs.h"

namespace ddprun {
namespace {

using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;

AnswerRecord Said(std::int64_t unix_ms, std::uint32_t rank, const std::string& text,
                  std::uint64_t generation = 1) {
  return {unix_ms, rank, generation, AnswerKind::kOut, text};
}

std::string Texts(const std::vector<LogLine>& lines) {
  std::string all;
  for (const LogLine& line : lines) {
    all += line.node + "." + std::to_string(line.rank) + ":" + line.text + " ";
  }
  return all;
}

Time At(Duration since) {
  return Time(since);
}

TEST(LogMerge, LinesOfSeveralNodesComeInOrderOfTime) {
  LogMerge merge(false);
  merge.Expect("a");
  merge.Expect("b");
  merge.Add("a", {Said(10, 0, "one\n"), Said(30, 0, "three\nand a ha")}, At(0ms));
  EXPECT_EQ(Texts(merge.Take(At(0ms))), "");  // b may have something earlier.
  merge.Add("b", {Said(20, 4, "two\n")}, At(0ms));
  EXPECT_EQ(Texts(merge.Take(At(0ms))), "a.0:one b.4:two ");
  EXPECT_EQ(merge.Used(), (std::vector<NodeId>{"b"}));
  EXPECT_TRUE(merge.Used().empty());
  merge.End("b");
  EXPECT_EQ(Texts(merge.Take(At(0ms))), "a.0:three ");
  EXPECT_EQ(merge.Used(), (std::vector<NodeId>{"a"}));
  merge.Add("a", {Said(40, 0, "lf")}, At(0ms));
  merge.End("a");
  EXPECT_FALSE(merge.Ended());
  std::vector<LogLine> rest = merge.Take(At(0ms));
  const std::vector<LogLine> end = merge.Take(At(0ms));
  rest.insert(rest.end(), end.begin(), end.end());
  EXPECT_EQ(Texts(rest), "a.0:and a half ");
  EXPECT_TRUE(merge.Ended());
}

// A node that prints nothing must not hold the others up for ever.
TEST(LogMerge, AFollowerWaitsAMomentForOthers) {
  LogMerge merge(true);
  merge.Expect("quiet");
  merge.Add("a", {Said(20, 0, "late\n")}, At(0ms));
  merge.Add("b", {Said(10, 1, "early\n")}, At(100ms));
  EXPECT_EQ(Texts(merge.Take(At(299ms))), "");
  EXPECT_TRUE(merge.Holds());
  std::string all = Texts(merge.Take(At(400ms)));
  all += Texts(merge.Take(At(400ms)));
  EXPECT_EQ(all, "b.1:early a.0:late ");
}

TEST(LogMerge, ProgressBarsEmptyLinesAndLongOnes) {
  LogMerge merge(false);
  merge.Add("a",
            {Said(1, 0, "10 %\r20 %\r30 %\r\n\n"), Said(2, 0, std::string(200'000, 'x') + "\n")},
            At(0ms));
  merge.End("a");
  std::vector<LogLine> lines;
  for (int i = 0; i < 3; ++i) {
    for (LogLine& line : merge.Take(At(0ms))) {
      lines.push_back(std::move(line));
    }
  }
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0].text, "30 %");
  EXPECT_EQ(lines[1].text, "");
  EXPECT_EQ(lines[2].text.size(), 200'000u);
}

// The next worker's first line is not the end of the last one's.
TEST(LogMerge, ALineEndsWithItsGeneration) {
  LogMerge merge(false);
  merge.Add("a", {Said(1, 0, "cut o"), Said(2, 0, "fresh\n", 2)}, At(0ms));
  merge.End("a");
  EXPECT_EQ(Texts(merge.Take(At(0ms))), "a.0:cut o a.0:fresh ");
}

TEST(LogMerge, AnEndlessLineIsCut) {
  LogMerge merge(true);
  std::size_t lines = 0;
  for (int i = 0; i < 100; ++i) {
    merge.Add("a", {Said(i, 0, std::string(4'000, 'x'))}, At(0ms));
    lines += merge.Take(At(1'000ms)).size();
  }
  EXPECT_GE(lines, 5u);
}

// Lines of one server that are not shown yet stay, and those of the next one follow them.
TEST(LogMerge, AnotherServerContinues) {
  LogMerge merge(true);
  merge.Expect("n0");
  merge.Add("n0", {{10, 0, 1, AnswerKind::kOut, "half "}}, At(0ms));
  EXPECT_TRUE(merge.Take(At(1s)).empty());
  merge.BeginAgain();
  EXPECT_TRUE(merge.Used().empty());
  merge.Expect("n0");
  merge.Add("n0", {{20, 0, 1, AnswerKind::kOut, "a line\n"}}, At(2s));
  const std::vector<LogLine> lines = merge.Take(At(3s));
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0].text, "half a line");
  EXPECT_FALSE(merge.Ended());
  merge.BeginAgain();
  EXPECT_TRUE(merge.Ended());  // That server asks no node.
}

// A node may make up as many workers as it likes.
TEST(LogMerge, LinesThatNeverEndAreCut) {
  LogMerge merge(true);
  merge.Expect("n0");
  std::size_t lines = 0;
  constexpr std::uint32_t kMore = 1'000;
  for (std::uint32_t rank = 0; rank < LogMerge::kMostStreams + kMore; ++rank) {
    merge.Add("n0", {{0, rank, 1, AnswerKind::kOut, "half a line"}}, At(1s));
    lines += merge.Take(At(2s)).size();
  }
  EXPECT_EQ(lines, kMore);
  lines = 0;
  const std::string half(LogMerge::kMostOfLine / 2, 'x');
  for (std::uint32_t rank = 0; rank < 3'000; ++rank) {
    merge.Add("n0", {{0, rank, 1, AnswerKind::kOut, half}}, At(1s));
    lines += merge.Take(At(2s)).size();
  }
  EXPECT_GT(lines, 900u);
}

std::string Shown(const std::string& text) {
  return FormatLogLine({.node = "n0", .rank = 3, .text = text}, false);
}

TEST(FormatLogLine, ACharacterThatTurnsALineRoundIsMadeVisible) {
  const std::string shown = Shown(
      "a\xe2\x80\xae"
      "b\xe2\x81\xa6"
      "c\xd8\x9c"
      "d\xe2\x80\xa6");  // An ellipsis is none.
  EXPECT_TRUE(shown.ends_with("[r3 n0] a\\xe2\\x80\\xaeb\\xe2\\x81\\xa6c\\xd8\\x9cd\xe2\x80\xa6\n"))
      << shown;
}

TEST(FormatLogLine, ASequenceThatATerminalObeysIsMadeVisible) {
  const std::string shown = Shown(
      "\x1b]52;c;AA\x07\xc2\x9b"
      "2J \x9b fine: \xc3\xa9");
  EXPECT_TRUE(
      shown.ends_with("[r3 n0] \\x1b]52;c;AA\\x07\\xc2\\x9b"
                      "2J \\x9b fine: \xc3\xa9\n"))
      << shown;
}

}  // namespace
}  // namespace ddprun
