#include "agent/workers/terminal_text.h"

#include <gtest/gtest.h>

namespace ddprun {
namespace {

TEST(MovesCursor, ColoursAndErasingTheRowDoNot) {
  EXPECT_FALSE(MovesCursor("\x1b[2K\x1b[1;31m50%\x1b[0m\x1b[K"));
  EXPECT_FALSE(MovesCursor("\x1b]8;;#x\x1b\\link\x1b]8;;\a"));
  EXPECT_TRUE(MovesCursor("50%\x1b[A"));
  EXPECT_TRUE(MovesCursor("\x1b[?25l"));
  EXPECT_TRUE(MovesCursor("\x1b[31mred\x1b[2;5H"));
  EXPECT_TRUE(
      MovesCursor("\x1b"
                  "7"));
}

// The rest of it may be on its way.
TEST(MovesCursor, HalfASequenceDoesNot) {
  EXPECT_FALSE(MovesCursor("50%\x1b"));
  EXPECT_FALSE(MovesCursor("50%\x1b[1"));
  EXPECT_FALSE(MovesCursor("50%\x1b]0;title"));
}

TEST(RowText, KeepsCharactersAndColours) {
  EXPECT_EQ(RowText("50%|\xe2\x96\x88\x1b[K"), "50%|\xe2\x96\x88");
  EXPECT_EQ(RowText("\x1b[31mred"), "\x1b[31mred\x1b[m");
  EXPECT_EQ(RowText("a\a\x01"
                    "b\x7f"),
            "ab ");
  EXPECT_EQ(RowText("    \x1b[K\t"), "");
}

// A spinner: each character is taken back before the next one.
TEST(RowText, ABackspaceTakesACharacterBack) {
  EXPECT_EQ(RowText("wait |\b/\b-"), "wait -");
  EXPECT_EQ(RowText("\xe2\xa0\x8b\b\xe2\xa0\x99"), "\xe2\xa0\x99");
  EXPECT_EQ(RowText("\b\bx"), "x");
}

TEST(RowText, ACharacterThatIsNotWholeYetIsLeftOut) {
  EXPECT_EQ(RowText("x\xe2\x96"), "x");
  EXPECT_EQ(RowText("x\x1b[3"), "x");
}

TEST(RowText, IsBounded) {
  std::string wide;
  while (wide.size() < 3 * kMostOfRow) {
    wide += "\xe2\x96\x88";
  }
  const std::string row = RowText(wide);
  EXPECT_LE(row.size(), kMostOfRow);
  EXPECT_EQ(row.size() % 3, 0U);
}

TEST(WithoutEscapes, OnlyTextIsLeft) {
  EXPECT_EQ(WithoutEscapes("\x1b[1;35mRuntimeError\x1b[0m: \x1b[35mno\x1b[0m"), "RuntimeError: no");
  EXPECT_EQ(WithoutEscapes("plain"), "plain");
  EXPECT_EQ(WithoutEscapes("cut\x1b[3"), "cut");
}

TEST(WholeCharacters, NoneIsCut) {
  EXPECT_EQ(WholeCharacters("a\xe2\x96\x88z", 4), 4U);
  EXPECT_EQ(WholeCharacters("a\xe2\x96\x88z", 3), 1U);
  EXPECT_EQ(WholeCharacters("a\xe2\x96\x88z", 2), 1U);
  EXPECT_EQ(WholeCharacters("\x88\x88\x88\x88\x88\x88", 5), 5U);  // No UTF-8.
}

}  // namespace
}  // namespace ddprun
