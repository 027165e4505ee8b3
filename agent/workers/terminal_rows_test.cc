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
struct Screen {
  Screen() : zero(rows.Add("", "[0] ")), one(rows.Add("", "[1] ")) {}
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

TEST(TerminalRows, LinesComeAsTheyEnd) {
  Screen screen;
  EXPECT_EQ(screen.Feed(screen.zero, "a\nb\r\nhal"), "a\nb\n");
  EXPECT_EQ(screen.Feed(screen.one, "c\n"), "c\n");
  EXPECT_EQ(screen.Feed(screen.zero, "f\n"), "half\n");
  EXPECT_EQ(screen.Feed(screen.zero, "d\r"), "");
  EXPECT_EQ(screen.Feed(screen.zero, "\n"), "d\n");  // No bar: the pair came in two pieces.
}

// Five times a second, whatever comes.
TEST(TerminalRows, ABarIsDrawnInPlace) {
  Screen screen;
  EXPECT_EQ(screen.Feed(screen.zero, "\r10%", 0), "");
  EXPECT_EQ(screen.rows.due(), At(200));
  EXPECT_EQ(screen.Feed(screen.zero, "\r20%", 100), "");
  EXPECT_EQ(screen.Due(199), "");
  EXPECT_EQ(screen.Due(200), Drawn("[0] 20%"));
  EXPECT_EQ(screen.rows.due(), std::nullopt);
  for (int at = 201; at < 400; ++at) {
    EXPECT_EQ(screen.Feed(screen.zero, "\r" + std::to_string(at) + "%", at), "");
    EXPECT_EQ(screen.Due(at), "");
  }
  EXPECT_EQ(screen.Due(401), Erased() + Drawn("[0] 399%"));
  EXPECT_EQ(screen.Feed(screen.zero, "\r100%\n", 402), Erased() + "[0] 100%\n");
}

// A bar that stands still would be one update behind.
TEST(TerminalRows, AnUpdateIsDrawnBeforeTheNextReturn) {
  Screen screen;
  screen.Feed(screen.zero, "10%\r", 0);
  EXPECT_EQ(screen.Due(200), Drawn("[0] 10%"));
  screen.Feed(screen.zero, "20%", 300);
  EXPECT_EQ(screen.Due(500), Erased() + Drawn("[0] 20%"));
}

TEST(TerminalRows, EachRankHasItsRowBelowTheLines) {
  Screen screen;
  screen.Feed(screen.zero, "\r1%", 0);
  screen.Feed(screen.one, "\r2%", 50);
  EXPECT_EQ(screen.Due(200), Drawn("[0] 1%\n[1] 2%", 1));
  const auto other = screen.rows.Add("", "[2] ");
  EXPECT_EQ(screen.Feed(other, "a line\n", 210),
            Erased(2) + "a line\n" + Drawn("[0] 1%\n[1] 2%", 1));
  EXPECT_EQ(screen.Feed(screen.zero, "\r100%\n", 220), Erased(2) + "[0] 100%\n" + Drawn("[1] 2%"));
  EXPECT_EQ(screen.Feed(screen.zero, "done\n", 230), Erased() + "done\n" + Drawn("[1] 2%"));
}

TEST(TerminalRows, TheLastStateIsNotLost) {
  Screen screen;
  screen.Feed(screen.zero, "\r10%\r20%\r", 0);
  screen.Feed(screen.one, "half a line", 0);
  EXPECT_EQ(screen.End(screen.zero), "[0] 20%\n");
  EXPECT_EQ(screen.Due(200), Drawn("[1] half a line"));
  EXPECT_EQ(screen.End(screen.one), Erased() + "half a line\n");
}

// tqdm's leave=False.
TEST(TerminalRows, ABarThatErasesItselfIsGone) {
  Screen screen;
  screen.Feed(screen.zero, "\r10%", 0);
  screen.Due(200);
  EXPECT_EQ(screen.Feed(screen.zero, "\r   \r", 300), "");
  EXPECT_EQ(screen.Due(500), Erased());
  EXPECT_EQ(screen.Feed(screen.zero, "next\n", 600), "next\n");
  screen.Feed(screen.zero, "\r10%", 700);
  screen.Due(900);
  screen.Feed(screen.zero, "\r   \r", 901);
  EXPECT_EQ(screen.End(screen.zero), Erased());
}

// tqdm's second bar: a newline, the bar, and up again. Without the last one the rows would wander.
TEST(TerminalRows, WhatMovesTheCursorIsNeverLeftOut) {
  Screen screen;
  screen.Feed(screen.zero, "\router 1%", 0);
  EXPECT_EQ(screen.Due(200), Drawn("[0] outer 1%"));
  EXPECT_EQ(screen.Feed(screen.zero, std::string("\n\rinner 1%") + kUp, 201),
            Erased() + "[0] outer 1%\n");
  EXPECT_EQ(screen.Feed(screen.zero, "\router 2%", 202), std::string("[0] inner 1%") + kUp);
  EXPECT_EQ(screen.Feed(screen.zero, "\n", 203), "\r\x1b[K[0] outer 2%\n");
}

TEST(TerminalRows, WhatMovesTheCursorIsPassedOnOnce) {
  Screen screen;
  screen.Feed(screen.zero, std::string("\rinner") + kUp, 0);
  EXPECT_EQ(screen.Due(200), std::string("[0] inner") + kUp);
  EXPECT_EQ(screen.Feed(screen.one, "a line\n", 300), "\r\x1b[Ja line\n");
  EXPECT_EQ(screen.Feed(screen.zero, "\rnext", 400), "");
  EXPECT_EQ(screen.Due(600), Drawn("[0] next"));
}

// The rows of a nested bar are made anew below it.
TEST(TerminalRows, NoMoveLeadsToAnothersLine) {
  Screen screen;
  screen.Feed(screen.zero, std::string("\router\n\rinner") + kUp + "\n", 0);
  EXPECT_EQ(screen.Feed(screen.one, "a line\n", 1), "\r\x1b[Ja line\n");
  EXPECT_EQ(screen.Feed(screen.zero, std::string("\rinner") + kUp, 2), "");
  EXPECT_EQ(screen.Due(202), "[0] inner");
  EXPECT_EQ(screen.Feed(screen.zero, std::string("\router\n\rinner") + kUp + "\r", 203),
            "\r\x1b[K[0] outer\n");
  EXPECT_EQ(screen.Due(403), std::string("[0] inner") + kUp);
  EXPECT_EQ(screen.Feed(screen.one, "a line\n", 404), "\r\x1b[Ja line\n");
  EXPECT_EQ(screen.Feed(screen.zero, "\n", 405), "");  // That line has ended already.
  screen.Feed(screen.zero, std::string("\rinner") + kUp, 406);
  EXPECT_EQ(screen.Due(606), "[0] inner");
}

// The cursor that a bar had hidden.
TEST(TerminalRows, ASequenceAtTheEndIsPassedOn) {
  Screen screen;
  screen.Feed(screen.zero, "done\n\x1b[?25h", 0);
  EXPECT_EQ(screen.End(screen.zero), "\x1b[?25h");
}

TEST(TerminalRows, AnEndlessLineIsBrokenBetweenCharacters) {
  Screen screen;
  std::string text = "x";
  while (text.size() < 3 * TerminalRows::kMaxLine) {
    text += "\xe2\x96\x88";
  }
  std::string out;
  for (std::size_t at = 0; at < text.size(); at += 1000) {
    out += screen.Feed(screen.zero, std::string_view(text).substr(at, 1000));
  }
  EXPECT_LE(out.find('\n'), TerminalRows::kMaxLine);
  EXPECT_EQ(out[out.find('\n') + 1], '\xe2');
  out += screen.End(screen.zero);
  std::erase(out, '\n');
  EXPECT_EQ(out, text);
}

// More rows than the terminal has would scroll at each drawing.
TEST(TerminalRows, RowsFitOnTheTerminal) {
  Screen screen;
  screen.rows.SetHeight(3);
  const auto two = screen.rows.Add("", "[2] ");
  screen.Feed(screen.zero, "\r1%", 0);
  screen.Feed(screen.one, "\r2%", 0);
  screen.Feed(two, "\r3%", 0);
  EXPECT_EQ(screen.Due(200), Drawn("[0] 1%\n[1] 2%", 1));
  EXPECT_EQ(screen.Feed(two, "\n", 300), Erased(2) + "[2] 3%\n" + Drawn("[0] 1%\n[1] 2%", 1));
}

TEST(TerminalRows, LinesHaveTheirPrefix) {
  TerminalRows rows;
  const auto stream = rows.Add("[default0]:", "[default0]:");
  std::string out;
  rows.Feed(stream, "a\n\r5%\n\n", At(0), out);
  EXPECT_EQ(out, "[default0]:a\n[default0]:5%\n[default0]:\n");
}

}  // namespace
}  // namespace ddprun
