#include "agent/host/verdict.h"

#include <gtest/gtest.h>

#include "rendezvous/messages/limits.h"

namespace ddprun {
namespace {

using std::chrono_literals::operator""s;

std::string Of(const std::optional<ExitStatus>& status, const std::string& output) {
  return VerdictOf({"", status, output}, 60s);
}

TEST(Verdict, TheExitCodeDecidesWhateverWasPrinted) {
  EXPECT_EQ(Of(Exited{0}, "ERROR: everything is broken\n"), "");
  EXPECT_EQ(Of(Exited{1}, "all is well\n"), "all is well");
}

TEST(Verdict, TheLastLineThatSaysSomethingIsTheReason) {
  EXPECT_EQ(Of(Exited{3}, "looking\nGPU 3: lost\n\n  \r\n"), "GPU 3: lost");
  EXPECT_EQ(Of(Exited{3}, "no newline"), "no newline");
  EXPECT_EQ(Of(Exited{3}, ""), Describe(ExitStatus(Exited{3})));
  EXPECT_EQ(Of(Killed{9}, " \n"), Describe(ExitStatus(Killed{9})));
}

TEST(Verdict, WithoutAnEndTheLimitIsTheReason) {
  EXPECT_EQ(Of(std::nullopt, ""), "no result within 1 min 00 s (--node-check-timeout)");
  EXPECT_EQ(Of(std::nullopt, "pinging n7\n"),
            "no result within 1 min 00 s (--node-check-timeout); its last line: pinging n7");
}

TEST(Verdict, ACheckThatCannotBeRunSaysSo) {
  EXPECT_EQ(VerdictOf({"cannot execute '/bin/sh'", {}, ""}, 60s),
            "cannot run it: cannot execute '/bin/sh'");
  EXPECT_EQ(Of(Exited{127}, "sh: 1: nosuch: not found\n"),
            "cannot run it: sh: 1: nosuch: not found");
  EXPECT_EQ(Of(Exited{126}, ""), "cannot run it: " + Describe(ExitStatus(Exited{126})));
}

// It goes to terminals and into messages.
TEST(Verdict, AReasonIsPrintableAndBounded) {
  EXPECT_EQ(Of(Exited{1}, "a\x1b[31mb\n").find('\x1b'), std::string::npos);
  std::string wide;
  for (int i = 0; i < 300; ++i) {
    wide += "é";
  }
  const std::string cut = Of(Exited{1}, "xy" + wide);
  EXPECT_EQ(cut.size(), kMaxUnfit - 1);  // Not in the middle of one.
  EXPECT_EQ(Of(Exited{1}, "x" + std::string(10'000, 'y')).size(), kMaxUnfit);
}

TEST(Verdict, OfTheOutputTheEndIsKept) {
  std::string output;
  for (int i = 0; i < 1'000; ++i) {
    AppendCheckOutput(output, "a line that is not the last one\n");
    EXPECT_LE(output.size(), kKeptCheckOutput);
  }
  AppendCheckOutput(output, "the end\n");
  EXPECT_EQ(Of(Exited{1}, output), "the end");
}

}  // namespace
}  // namespace ddprun
