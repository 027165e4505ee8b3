#include "agent/workers/line_assembler.h"

#include <gtest/gtest.h>

namespace ddprun {
namespace {

Time At(int milliseconds) {
  return Time(std::chrono::milliseconds(milliseconds));
}

struct Fed {
  explicit Fed(const std::string& prefix) : assembler(prefix) {}
  std::string Take(std::string_view bytes, int at = 0) {
    std::string lines;
    assembler.Feed(bytes, At(at), lines);
    return lines;
  }
  std::string Finish() {
    std::string lines;
    assembler.Finish(lines);
    return lines;
  }
  LineAssembler assembler;
};

TEST(LinesWithAny, KeepsWholeLinesInTheirOrder) {
  EXPECT_EQ(LinesWithAny("apple\npear\nan orange\n", {"orange", "app"}, 0), "apple\nan orange\n");
  EXPECT_EQ(LinesWithAny("pear\n", {"apple"}, 0), "");
  EXPECT_EQ(LinesWithAny("[r0]:pear\n[r0]:r0\n", {"r0"}, 5), "[r0]:r0\n");
  EXPECT_EQ(LinesWithAny("", {"apple"}, 0), "");
  EXPECT_EQ(LinesWithAny("a pear\na piece of an apple", {"apple"}, 0), "a piece of an apple\n");
}

// Half a line on the console would be continued by another worker's.
TEST(LineAssembler, ALineIsHeldUntilItEnds) {
  Fed fed("");
  EXPECT_EQ(fed.Take("epoch 1"), "");
  EXPECT_EQ(fed.Take(" done\nepoch 2\nep"), "epoch 1 done\nepoch 2\n");
  EXPECT_EQ(fed.Finish(), "ep\n");
  EXPECT_EQ(fed.Finish(), "");
}

TEST(LineAssembler, EveryLineHasThePrefixAndEmptyOnesStay) {
  Fed fed("[default0]:");
  EXPECT_EQ(fed.Take("a\n\nb\n"), "[default0]:a\n[default0]:\n[default0]:b\n");
}

// A worker that never ends its line must not fill the agent's memory.
TEST(LineAssembler, ALineWithoutEndIsGivenOutInPieces) {
  Fed fed("[r0]:");
  const std::string endless(3 * LineAssembler::kMaxLine + 5, 'x');
  std::string lines;
  for (std::size_t at = 0; at < endless.size(); at += 1000) {
    lines += fed.Take(std::string_view(endless).substr(at, 1000));
  }
  EXPECT_EQ(lines, "[r0]:" + std::string(3 * LineAssembler::kMaxLine, 'x'));
  EXPECT_TRUE(fed.assembler.open());
  EXPECT_EQ(fed.Take("y\nz\n"), "xxxxxy\n[r0]:z\n");
  EXPECT_FALSE(fed.assembler.open());
}

TEST(LineAssembler, APieceEndsWithItsStream) {
  Fed fed("");
  const std::string piece(LineAssembler::kMaxLine, 'x');
  EXPECT_EQ(fed.Take(piece), "");
  EXPECT_EQ(fed.Take("yy"), piece);
  EXPECT_EQ(fed.Finish(), "yy\n");
  EXPECT_EQ(fed.Take(piece + "y\r1%\r2%"), piece + "y\n");
  EXPECT_EQ(fed.Finish(), "2%\n");
}

// A return would put the cursor on another worker's line.
TEST(LineAssembler, ProgressUpdatesBecomeLinesOncePerSecond) {
  Fed fed("");
  EXPECT_EQ(fed.Take("\r10%", 0), "");
  EXPECT_EQ(fed.Take("\r20%", 10), "10%\n");
  EXPECT_EQ(fed.Take("\r30%\r40%", 500), "");
  EXPECT_EQ(fed.Take("\r50%", 1200), "40%\n");
  EXPECT_EQ(fed.Take("\r100%\n", 1300), "100%\n");
}

// The pair may come in two pieces.
TEST(LineAssembler, ReturnAndNewlineEndOneLine) {
  Fed fed("");
  EXPECT_EQ(fed.Take("a\r\nb\r"), "a\r\n");
  EXPECT_EQ(fed.Take("\nc\n"), "b\r\nc\n");
}

TEST(TailLines, KeepsTheLastOnesAndNotMore) {
  TailLines tail;
  for (int i = 0; i < 100; ++i) {
    tail.Feed("line " + std::to_string(i) + "\n\n");
  }
  tail.Feed("the end");
  const std::vector<std::string> lines = tail.Lines();
  ASSERT_EQ(lines.size(), TailLines::kLines);
  EXPECT_EQ(lines.front(), "line 81");
  EXPECT_EQ(lines.back(), "the end");
}

TEST(TailLines, ALongLineIsCut) {
  TailLines tail;
  tail.Feed(std::string(10 * TailLines::kMaxLine, 'x'));
  tail.Feed("y\nz");
  ASSERT_EQ(tail.Lines().size(), 2U);
  EXPECT_EQ(tail.Lines()[0], std::string(TailLines::kMaxLine, 'x'));
  EXPECT_EQ(tail.Lines()[1], "z");
}

}  // namespace
}  // namespace ddprun
