#include "agent/workers/terminal_rows.h"

#include <gtest/gtest.h>

#include <string>

namespace ddprun {
namespace {

constexpr const char* kUp = "\x1b[A";

Time At(int milliseconds) {
  return Time(std::chrono::milliseconds(milliseconds));
}

std::string Drawn(const std::string& rows, int more = 0) {
  return "\x1b[?7l" + rows + "\x1b[?7h" +
         (more > 0 ? "\x1b[" + std::to_string(more) + "A" : std::string()) + "\r";
}

std::string Erased(int rows = 1) {
  return rows == 1 ? "\x1b[K" : "\x1b[J";
}

// Two ranks on one terminal.
struct TerminalRowsTest : testing::Test {
  TerminalRowsTest() : zero(rows.Add("", "[0] ")), one(rows.Add("", "[1] ")) {}
  std::string Feed(TerminalRows::Stream stream, std::string_view bytes, int at = 0) {
    std::string out;
    rows.Feed(stream, bytes, At(at), out);
    return out;
  }
  std::string End(TerminalRows::Stream stream) {
    std::string out;
    rows.End(stream, out);
    return out;
  }
  std::string Due(int at) {
    std::string out;
    rows.TakeDue(At(at), out);
    return out;
  }
  TerminalRows rows;
  TerminalRows::Stream zero;
  TerminalRows::Stream one;
};

TEST_F(TerminalRowsTest, LinesComeAsTheyEnd) {
  EXPECT_EQ(Feed(zero, "a\nb\r\nhal"), "a\nb\n");
  EXPECT_EQ(Feed(one, "c\n"), "c\n");
  EXPECT_EQ(Feed(zero, "f\n"), "half\n");
  EXPECT_EQ(Feed(zero, "d\r"), "");
  EXPECT_EQ(Feed(zero, "\n"), "d\n");  // No bar: the pair came in two pieces.
}

// Five times a second, whatever comes.
TEST_F(TerminalRowsTest, ABarIsDrawnInPlace) {
  EXPECT_EQ(Feed(zero, "\r10%", 0), "");
  EXPECT_EQ(rows.due(), At(200));
  EXPECT_EQ(Feed(zero, "\r20%", 100), "");
  EXPECT_EQ(Due(199), "");
  EXPECT_EQ(Due(200), Drawn("[0] 20%"));
  EXPECT_EQ(rows.due(), std::nullopt);
  for (int at = 201; at < 400; ++at) {
    EXPECT_EQ(Feed(zero, "\r" + std::to_string(at) + "%", at), "");
    EXPECT_EQ(Due(at), "");
  }
  EXPECT_EQ(Due(401), Erased() + Drawn("[0] 399%"));
  EXPECT_EQ(Feed(zero, "\r100%\n", 402), Erased() + "[0] 100%\n");
}

TEST_F(TerminalRowsTest, TheLastStateIsNotLost) {
  Feed(zero, "\r10%\r20%\r", 0);
  Feed(one, "half a line", 0);
  EXPECT_EQ(End(zero), "[0] 20%\n");
  EXPECT_EQ(Due(200), Drawn("[1] half a line"));
  EXPECT_EQ(End(one), Erased() + "half a line\n");
}

// tqdm's leave=False.
TEST_F(TerminalRowsTest, ABarThatErasesItselfIsGone) {
  Feed(zero, "\r10%", 0);
  Due(200);
  EXPECT_EQ(Feed(zero, "\r   \r", 300), "");
  EXPECT_EQ(Due(500), Erased());
  EXPECT_EQ(Feed(zero, "next\n", 600), "next\n");
  Feed(zero, "\r10%", 700);
  Due(900);
  Feed(zero, "\r   \r", 901);
  EXPECT_EQ(End(zero), Erased());
}

// tqdm's second bar: a newline, the bar, and up again. Without the last one the rows would wander.
TEST_F(TerminalRowsTest, ASequenceThatMovesTheCursorIsNeverLeftOut) {
  Feed(zero, "\router 1%", 0);
  EXPECT_EQ(Due(200), Drawn("[0] outer 1%"));
  EXPECT_EQ(Feed(zero, std::string("\n\rinner 1%") + kUp, 201), Erased() + "[0] outer 1%\n");
  EXPECT_EQ(Feed(zero, "\router 2%", 202), std::string("[0] inner 1%") + kUp);
  EXPECT_EQ(Feed(zero, "\n", 203), "\r\x1b[K[0] outer 2%\n");
}

// The rows of a nested bar are made anew below it.
TEST_F(TerminalRowsTest, NoMoveLeadsToAnothersLine) {
  Feed(zero, std::string("\router\n\rinner") + kUp + "\n", 0);
  EXPECT_EQ(Feed(one, "a line\n", 1), "\r\x1b[Ja line\n");
  EXPECT_EQ(Feed(zero, std::string("\rinner") + kUp, 2), "");
  EXPECT_EQ(Due(202), "[0] inner");
  EXPECT_EQ(Feed(zero, std::string("\router\n\rinner") + kUp + "\r", 203), "\r\x1b[K[0] outer\n");
  EXPECT_EQ(Due(403), std::string("[0] inner") + kUp);
  EXPECT_EQ(Feed(one, "a line\n", 404), "\r\x1b[Ja line\n");
  EXPECT_EQ(Feed(zero, "\n", 405), "");  // That line has ended already.
  Feed(zero, std::string("\rinner") + kUp, 406);
  EXPECT_EQ(Due(606), "[0] inner");
}

// The cursor that a bar had hidden.
TEST_F(TerminalRowsTest, ASequenceAtTheEndIsPassedOn) {
  Feed(zero, "done\n\x1b[?25h", 0);
  EXPECT_EQ(End(zero), "\x1b[?25h");
}

TEST_F(TerminalRowsTest, AnEndlessLineIsBrokenBetweenCharacters) {
  std::string text = "x";
  while (text.size() < 3 * TerminalRows::kMaxLine) {
    text += "\xe2\x96\x88";
  }
  std::string out;
  for (std::size_t at = 0; at < text.size(); at += 1000) {
    out += Feed(zero, std::string_view(text).substr(at, 1000));
  }
  EXPECT_LE(out.find('\n'), TerminalRows::kMaxLine);
  EXPECT_EQ(out[out.find('\n') + 1], '\xe2');
  out += End(zero);
  std::erase(out, '\n');
  EXPECT_EQ(out, text);
}

// More rows than the terminal has would scroll at each drawing.
TEST_F(TerminalRowsTest, RowsFitOnTheTerminal) {
  rows.SetHeight(3);
  const auto two = rows.Add("", "[2] ");
  Feed(zero, "\r1%", 0);
  Feed(one, "\r2%", 0);
  Feed(two, "\r3%", 0);
  EXPECT_EQ(Due(200), Drawn("[0] 1%\n[1] 2%", 1));
  EXPECT_EQ(Feed(two, "\n", 300), Erased(2) + "[2] 3%\n" + Drawn("[0] 1%\n[1] 2%", 1));
}

TEST_F(TerminalRowsTest, LinesHaveTheirPrefix) {
  TerminalRows rows;
  const auto stream = rows.Add("[default0]:", "[default0]:");
  std::string out;
  rows.Feed(stream, "a\n\r5%\n\n", At(0), out);
  EXPECT_EQ(out, "[default0]:a\n[default0]:5%\n[default0]:\n");
}

}  // namespace
}  // namespace ddprun
