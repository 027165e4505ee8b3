#include "launcher/end/failure_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <nlohmann/json.hpp>

#include "rendezvous/messages/messages.h"

namespace ddprun {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

FailureFacts Facts(ExitStatus status) {
  FailureFacts facts;
  facts.program = "train.py";
  facts.root.rank = 1;
  facts.root.local_rank = 1;
  facts.root.pid = 42;
  facts.root.host = "n0";
  facts.root.status = status;
  facts.max_restarts = 3;
  return facts;
}

FailedWorker Stopped(std::uint32_t rank) {
  return {.rank = rank, .local_rank = rank, .pid = 100 + rank, .host = "n0", .status = Killed{15}};
}

TEST(FailureReport, AWorkerThatTheWatchdogKilledWasKilledByNoOther) {
  FailureFacts facts = Facts(Killed{SIGKILL});
  facts.root.message = "watchdog timer 'step' expired; ddprun killed the worker";
  EXPECT_EQ(HintFor(facts), "");
  EXPECT_THAT(FormatFailureReport(facts), HasSubstr("  traceback : " + facts.root.message + "\n"));
}

// The code would be that of ddprun's own signal.
TEST(FailureReport, AWorkerThatLeftAnErrorAndWasStoppedHasNoExitCode) {
  FailureFacts facts = Facts(Killed{15});
  facts.root.message = "ValueError: boom";
  facts.root.stopped = facts.stopped = true;
  const std::string report = FormatFailureReport(facts);
  EXPECT_NE(report.find("  exitcode  : <N/A> (pid: 42)  (ddprun stopped it after its error)\n"),
            std::string::npos);
  EXPECT_EQ(report.find("SIGTERM"), std::string::npos);
  const auto json = nlohmann::json::parse(FailureJson(facts));
  EXPECT_TRUE(json["root_cause"]["exitcode"].is_null());
  EXPECT_EQ(json["root_cause"]["ended"], "stopped by ddprun after its error");
}

// A worker that recorded an error and then outlived TERM was killed by ddprun alone.
TEST(FailureReport, ARootThatWasStoppedHasNoHintAboutItsSignal) {
  FailureFacts facts = Facts(Killed{SIGKILL});
  facts.stopped = true;
  EXPECT_EQ(HintFor(facts), "");
}

TEST(FailureReport, AnErrorFilesTracebackIsShownWhole) {
  FailureFacts facts = Facts(Exited{1});
  facts.root.error_file = "1/error.json";
  facts.root.message = "ValueError: boom";
  facts.root.traceback = "Traceback (most recent call last):\n  File x\nValueError: boom\n";
  EXPECT_THAT(FormatFailureReport(facts),
              HasSubstr("  exitcode  : 1 (pid: 42)\n"
                        "  error_file: 1/error.json\n"
                        "  traceback : Traceback (most recent call last):\n"
                        "    File x\n"
                        "  ValueError: boom\n"));
}

// On stderr it has the frames outside of @record too, and torch's name of the rank.
TEST(FailureReport, ATracebackIsShownOnce) {
  FailureFacts facts = Facts(Exited{1});
  facts.root.traceback =
      "Traceback (most recent call last):\n  File w.py, line 3\n    train()\nValueError: boom\n";
  facts.last_lines = {"  3 of 4 loaded",
                      "[rank1]: Traceback (most recent call last):",
                      "[rank1]:   File w.py, line 9",
                      "[rank1]:     main()",
                      "[rank1]:   File w.py, line 3",
                      "[rank1]:     train()",
                      "[rank1]: ValueError: boom",
                      "[W1] destroyed"};
  EXPECT_THAT(FormatFailureReport(facts), HasSubstr("last lines of rank 1 on stderr:\n  "
                                                    "  3 of 4 loaded\n  [W1] destroyed\nrestarts"));
  facts.last_lines.erase(facts.last_lines.begin());
  facts.last_lines.pop_back();
  EXPECT_THAT(FormatFailureReport(facts), Not(HasSubstr("last lines")));
}

// 64 workers that were stopped alike are one entry, not 448 lines.
TEST(FailureReport, EqualFailuresAreFolded) {
  FailureFacts facts = Facts(Exited{1});
  for (const std::uint32_t rank : {7, 0, 2, 3, 4}) {
    facts.others.push_back(Stopped(rank));
  }
  facts.others.push_back({.rank = 6, .local_rank = 6, .host = "n0", .status = Exited{5}});
  const std::string report = FormatFailureReport(facts);
  EXPECT_THAT(report, HasSubstr("  rank      : 0 (local_rank: 0)\n"));
  EXPECT_THAT(report, HasSubstr("  and 4 more like it: ranks 2-4, 7\n"));
  EXPECT_THAT(report, HasSubstr("[2]:\n"));
  EXPECT_THAT(report, Not(HasSubstr("[3]:")));
}

// A worker's bytes must not move the reader's cursor.
TEST(FailureReport, ControlCharactersAreVisible) {
  FailureFacts facts = Facts(Exited{1});
  facts.last_lines = {"\x1b[2Jgone"};
  EXPECT_THAT(FormatFailureReport(facts), HasSubstr("  \\x1b[2Jgone\n"));
}

TEST(FailureReport, OfALoneWorkerItSaysWhereItsLinesAre) {
  FailureFacts facts = Facts(Exited{1});
  EXPECT_THAT(FormatFailureReport(facts), Not(HasSubstr("log       :")));
  facts.on_console = true;
  EXPECT_THAT(
      FormatFailureReport(facts),
      HasSubstr("log       : none; what rank 1 printed is above (--log-dir=DIR keeps it)\n"));
  facts.last_lines = {"why"};
  EXPECT_THAT(FormatFailureReport(facts), Not(HasSubstr("log       :")));
}

TEST(FailureReport, HintsComeFromWhatIsKnown) {
  EXPECT_EQ(HintFor(Facts(Exited{1})), "");
  FailureFacts oom = Facts(Killed{SIGKILL});
  oom.root.message = kMemoryRanOut;
  EXPECT_THAT(HintFor(oom), HasSubstr("--mem"));
  EXPECT_THAT(HintFor(Facts(Killed{SIGSEGV, true})), HasSubstr("a core file was written"));
  FailureFacts usage = Facts(Exited{2});
  EXPECT_EQ(HintFor(usage), "");
  usage.ran = Duration(200);
  EXPECT_THAT(HintFor(usage), HasSubstr("arguments"));
  FailureFacts port = Facts(Exited{1});
  port.last_lines = {"OSError: [Errno 98] Address already in use"};
  EXPECT_THAT(HintFor(port), HasSubstr("port"));
  FailureFacts peer = Facts(Exited{1});
  peer.ended_well = {1, 2};
  EXPECT_EQ(HintFor(peer), "");
  peer.last_lines = {"RuntimeError: [gloo/transport/tcp/pair.cc:561] Connection closed by peer"};
  EXPECT_THAT(HintFor(peer), HasSubstr("ranks 1-2 had ended with exit code 0 before"));
  peer.last_lines = {"DistNetworkError: Failed to recv, got 0 bytes"};
  EXPECT_THAT(HintFor(peer), HasSubstr("ranks 1-2 had ended with exit code 0 before"));
  peer.last_lines = {"ConnectionResetError: [Errno 104] Connection reset by peer"};  // No rank's.
  EXPECT_EQ(HintFor(peer), "");
  FailureFacts gpu = Facts(Exited{1});
  gpu.root.message = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate";
  EXPECT_THAT(HintFor(gpu), HasSubstr("GPU"));
}

TEST(FailureReport, JsonHasTheSameFactsWhateverTheBytes) {
  FailureFacts facts = Facts(Killed{SIGSEGV});
  facts.exit_code = 139;
  facts.last_lines = {"\xff\xfe"};
  facts.others.push_back(Stopped(0));
  const auto json = nlohmann::json::parse(FailureJson(facts));
  EXPECT_EQ(json["exit_code"], 139);
  EXPECT_EQ(json["root_cause"]["exitcode"], -11);
  EXPECT_EQ(json["other_failures"][0]["rank"], 0);
}

TEST(FailureReport, ARequeuedJobSaysSo) {
  FailureFacts facts = Facts(Exited{3});
  facts.requeues = 2;
  EXPECT_THAT(FormatFailureReport(facts),
              HasSubstr("0 of 3 used (--max-restarts); the scheduler requeued the job 2 times\n"));
  EXPECT_EQ(nlohmann::json::parse(FailureJson(facts))["requeues"], 2);
}

TEST(FailureReport, AHangNamesTheRankTheReasonAndTheStacks) {
  FailureFacts facts = Facts(Killed{SIGKILL});
  facts.exit_code = 124;
  facts.hang = "no step for 30.0 s (its peers are at step 120, it is at step 118)";
  facts.root.stacks = "logs/0/stacks.txt";
  const std::string text = FormatFailureReport(facts);
  EXPECT_NE(text.find("Root Cause: this worker hung:\n"), std::string::npos) << text;
  EXPECT_NE(text.find("  stacks    : logs/0/stacks.txt\n"), std::string::npos) << text;
  EXPECT_NE(text.find("hung      : no step for 30.0 s ("), std::string::npos) << text;
  EXPECT_EQ(HintFor(facts).find("SIGKILL was sent by"), std::string::npos);  // We did.
  const auto json = nlohmann::json::parse(FailureJson(facts));
  EXPECT_EQ(json["hang"]["rank"], facts.root.rank);
  EXPECT_EQ(json["root_cause"]["stacks"], "logs/0/stacks.txt");
}

TEST(FailureReport, WhereTheEvidenceIs) {
  FailureFacts facts = Facts(Exited{3});
  EXPECT_THAT(FormatFailureReport(facts), Not(HasSubstr("evidence  :")));
  facts.evidence = "logs/evidence-2";
  EXPECT_THAT(FormatFailureReport(facts), HasSubstr("\nevidence  : logs/evidence-2\n"));
  EXPECT_EQ(nlohmann::json::parse(FailureJson(facts))["evidence"], "logs/evidence-2");
}

TEST(FailureReport, AHangOfAllBlamesNoRank) {
  FailureFacts facts = Facts(Killed{SIGKILL});
  facts.hang = "no step for 30.0 s";
  facts.nobody_lags = true;
  EXPECT_NE(FormatFailureReport(facts).find("Root Cause: the workers hung; this is one of them"),
            std::string::npos);
  EXPECT_EQ(nlohmann::json::parse(FailureJson(facts))["hang"]["rank"], nullptr);
}

TEST(FailureReport, TheHangOfTheOnlyRankNamesNoOthers) {
  FailureFacts facts = Facts(Killed{SIGKILL});
  facts.hang = "no step for 30.0 s";
  facts.alone = true;
  for (const bool nobody_lags : {false, true}) {
    facts.nobody_lags = nobody_lags;
    EXPECT_THAT(HintFor(facts), HasSubstr("the stacks show where this rank stood (--log-dir"));
    EXPECT_THAT(FormatFailureReport(facts), HasSubstr("Root Cause: this worker hung:\n"));
  }
}

}  // namespace
}  // namespace ddprun
