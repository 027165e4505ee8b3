#include "rendezvous/core/judgement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rendezvous/core/testing/scenario.h"
#include "rendezvous/messages/describe.h"

namespace ddprun {
namespace {

Evidence From(const std::string& node, std::uint32_t rank, ExitStatus status, Time when) {
  Evidence evidence{{node, {1}}, Failure(status), when};
  evidence.failure.rank = rank;
  return evidence;
}

Evidence Hello(Evidence evidence) {
  evidence.failure.said_hello = true;
  return evidence;
}

Evidence Stopped(Evidence evidence) {
  evidence.failure.stopped_by_us = true;
  return evidence;
}

Evidence Recorded(Evidence evidence) {
  evidence.failure.recorded = true;
  return evidence;
}

Drain Because(std::vector<Evidence> evidence) {
  Drain drain;
  drain.evidence = std::move(evidence);
  return drain;
}

TEST(Judgement, TheFirstOwnFailureIsTheRoot) {
  const auto root = RootCause({Stopped(From("n0", 0, Killed{15}, At(0s))),
                               From("n1", 2, Exited{4}, At(2s)), From("n2", 1, Exited{3}, At(1s))});
  EXPECT_EQ(root->rank, 1u);
}

// 75 means "a peer was lost, restart me", but only from a worker that speaks the protocol.
TEST(Judgement, RestartMeIsCollateralOnlyAfterHello) {
  const Evidence later = From("n1", 1, Exited{3}, At(9s));
  EXPECT_EQ(RootCause({Hello(From("n0", 0, Exited{75}, At(0s))), later})->rank, 1u);
  EXPECT_EQ(RootCause({From("n0", 0, Exited{75}, At(0s)), later})->rank, 0u);
}

// Peers of a killed worker often exit before its status is known.
TEST(Judgement, ASignalWithinASecondBeatsAnExitCode) {
  const Evidence exit = From("n0", 0, Exited{1}, At(0s));
  EXPECT_EQ(RootCause({exit, From("n1", 1, Killed{11}, At(1s))})->rank, 1u);
  EXPECT_EQ(RootCause({exit, From("n1", 1, Killed{11}, At(1'001ms))})->rank, 0u);
  EXPECT_EQ(RootCause({exit, Stopped(From("n1", 1, Killed{9}, At(1ms)))})->rank, 0u);
}

// Its peers die of an exception while its own process still lives, and is then stopped.
TEST(Judgement, TheWorkerThatRecordedItsErrorFirstIsTheRootThoughStopped) {
  const Evidence peer = From("n0", 0, Exited{1}, At(5s));
  const Evidence recorded = Recorded(Stopped(From("n0", 1, Killed{15}, At(3s))));
  EXPECT_EQ(RootCause({peer, recorded})->rank, 1u);
  const Judgement judgement = Judge(Because({recorded, peer}), 0, 0);
  EXPECT_EQ(judgement.outcome->exit_code, 1);  // Not 143: the signal was ours.
  EXPECT_NE(judgement.outcome->text.find("had failed, and was stopped"), std::string::npos);
}

TEST(Judgement, ADeathBySignalBeforeARecordIsTheRoot) {
  const Evidence record = Recorded(From("n0", 0, Exited{1}, At(2s)));
  EXPECT_EQ(RootCause({record, From("n0", 1, Killed{6}, At(1s))})->rank, 1u);
  EXPECT_EQ(RootCause({record, From("n0", 1, Killed{9}, At(3s))})->rank, 1u);  // Noticed late.
  EXPECT_EQ(RootCause({record, From("n0", 1, Killed{9}, At(3'001ms))})->rank, 0u);
}

// A program's answer to a peer's exception, as an exit code is.
TEST(Judgement, AnAbortAfterARecordOfItsOwnNodeIsNot) {
  const Evidence record = Recorded(From("n0", 0, Exited{1}, At(2s)));
  EXPECT_EQ(RootCause({record, From("n0", 1, Killed{6}, At(2'500ms))})->rank, 0u);
  EXPECT_EQ(RootCause({record, From("n1", 1, Killed{6}, At(2'500ms))})->rank, 1u);
}

// PyTorch's threads abort many a program whose interpreter ends with an exception.
TEST(Judgement, AWorkerThatRecordedAnErrorAndThenAbortedFailedWhenItWasRecorded) {
  const Evidence record = Recorded(From("n0", 0, Exited{1}, At(2s)));
  const Evidence aborted = Recorded(Stopped(From("n0", 1, Killed{6}, At(2'050ms))));
  EXPECT_EQ(RootCause({record, aborted})->rank, 0u);
  const Evidence killed = From("n0", 0, Killed{11}, At(2'060ms));
  EXPECT_EQ(RootCause({killed, aborted})->rank, 0u);
}

// It may be the answer to a peer whose process lives on.
TEST(Judgement, ASilentExitAfterARecordIsNot) {
  const Evidence record = Recorded(Stopped(From("n0", 0, Killed{15}, At(2s))));
  EXPECT_EQ(RootCause({record, From("n0", 1, Exited{3}, At(2'001ms))})->rank, 0u);
  EXPECT_EQ(RootCause({record, From("n0", 1, Exited{3}, At(1'999ms))})->rank, 1u);
}

// Its connections are closed before its end can be noticed, and a busy machine lies between.
TEST(Judgement, AWorkerThatRecordedThatAPeerWasLostIsNotTheRoot) {
  Evidence lost = Recorded(From("n0", 0, Exited{1}, At(2s)));
  lost.failure.details.message = "RuntimeError: [pair.cc:547] Connection closed by peer [::1]:9";
  EXPECT_EQ(RootCause({lost, From("n0", 1, Exited{3}, At(2'030ms))})->rank, 1u);
  EXPECT_EQ(RootCause({lost, Recorded(From("n1", 1, Exited{1}, At(3s)))})->rank, 1u);
  EXPECT_EQ(RootCause({lost, From("n0", 1, Exited{3}, At(3'001ms))})->rank, 0u);
  EXPECT_EQ(RootCause({lost, Stopped(From("n0", 1, Exited{3}, At(2'030ms)))})->rank, 0u);
  Evidence too = lost;
  too.failure.rank = 2;
  too.when = At(2'010ms);
  EXPECT_EQ(RootCause({lost, too})->rank, 0u);
  too.failure.details.message = "DistNetworkError: failed to recv, got 0 bytes";
  Evidence pipe = lost;  // Of its own.
  pipe.failure.details.message = "BrokenPipeError: [Errno 32] Broken pipe";
  EXPECT_EQ(RootCause({pipe, From("n0", 1, Exited{3}, At(2'030ms))})->rank, 0u);
  EXPECT_EQ(RootCause({pipe, too})->rank, 0u);
  EXPECT_EQ(RootCause({lost, too, From("n0", 1, Exited{3}, At(2'030ms))})->rank, 1u);
}

TEST(Judgement, AWorkerIsNotTheRootIfItsLastLinesSayThatAPeerWasLost) {
  Evidence lost = From("n0", 0, Exited{1}, At(2s));
  lost.failure.last_lines =
      "[rank0]: Traceback (most recent call last):\n[rank0]: RuntimeError: Connection closed by "
      "peer\n";
  Evidence slow = Stopped(From("n0", 1, Killed{15}, At(5s)));
  EXPECT_EQ(RootCause({lost, slow})->rank, 0u);
  slow.failure.last_lines = "[rank1]: ValueError: bad sample\n";
  const auto root = RootCause({lost, slow});
  EXPECT_EQ(root->rank, 1u);
  EXPECT_THAT(Describe(*root),
              testing::EndsWith("was stopped before it had ended: ValueError: bad sample"));
  Evidence other = Stopped(From("n0", 2, Killed{15}, At(4s)));
  other.failure.last_lines = lost.failure.last_lines;
  EXPECT_EQ(RootCause({lost, other, slow})->rank, 1u);
  lost.failure.last_lines += "Traceback (most recent call last):\nKeyError: 'x'\n";
  EXPECT_EQ(RootCause({lost, slow})->rank, 0u);
}

TEST(Judgement, AllCollateralHasTheFirstAsRoot) {
  EXPECT_EQ(RootCause({}), std::nullopt);
  EXPECT_EQ(RootCause({Hello(From("n1", 1, Exited{75}, At(2s))),
                       Hello(From("n0", 0, Exited{75}, At(1s)))})
                ->rank,
            0u);
}

TEST(Judgement, DoNotRestartEndsTheRunWhateverTheBudget) {
  const Evidence asks = Hello(From("n0", 0, Exited{76}, At(0s)));
  EXPECT_EQ(Judge(Because({asks}), 0, 9).outcome->exit_code, 76);
  const Evidence plain = From("n0", 0, Exited{76}, At(0s));
  EXPECT_TRUE(Judge(Because({plain}), 0, 9).charged);
}

TEST(Judgement, WorkersThatCannotStartUseARestartAndAreReported) {
  Drain drain;
  drain.spawn_failures = {"n0: cannot execute 'train': No such file or directory"};
  EXPECT_TRUE(Judge(drain, 0, 1).charged);
  const Judgement last = Judge(drain, 1, 1);
  EXPECT_NE(last.outcome->text.find("No such file"), std::string::npos);
  EXPECT_EQ(last.outcome->exit_code, 1);
}

// The workers of the other nodes are stopped for it, and are not why.
TEST(Judgement, ANodeStoppedForWorkersThatCannotStartIsNotBlamed) {
  Drain drain = Because({Stopped(From("n0", 0, Killed{15}, At(1s)))});
  drain.spawn_failures = {"n1: cannot execute 'train': No such file or directory"};
  const Judgement judgement = Judge(drain, 0, 0);
  EXPECT_FALSE(judgement.root);
  EXPECT_NE(judgement.outcome->text.find("n1: cannot execute"), std::string::npos);
  drain.evidence.push_back(From("n0", 0, Exited{3}, At(1s)));
  EXPECT_EQ(Judge(drain, 0, 0).outcome->exit_code, 3);
}

// A scheduler's rules can tell it from a node that was killed (--give-up-code).
TEST(Judgement, OnlyARunThatWouldFailAgainIsGivenUp) {
  const Evidence asks = Hello(From("n0", 0, Exited{76}, At(0s)));
  EXPECT_TRUE(Judge(Because({asks}), 0, 9).outcome->gave_up);
  EXPECT_TRUE(Judge(Because({From("n0", 0, Exited{2}, At(0s))}), 0, 0).outcome->gave_up);
  Drain drain;
  drain.spawn_failures = {"n0: cannot execute 'train': No such file or directory"};
  EXPECT_TRUE(Judge(drain, 0, 0).outcome->gave_up);
  drain.cause = StopCause::kOperator;
  EXPECT_FALSE(Judge(drain, 0, 0).outcome->gave_up);
}

TEST(Judgement, AllAskForRestartWhereNothingElseHasFailed) {
  const Evidence asks = Hello(From("n0", 0, Exited{75}, At(0s)));
  EXPECT_FALSE(AllAskForRestart(Drain{}));
  EXPECT_TRUE(AllAskForRestart(Because({asks})));
  EXPECT_TRUE(AllAskForRestart(Because({asks, Stopped(From("n1", 1, Killed{15}, At(1s)))})));
  EXPECT_TRUE(AllAskForRestart(Because({asks, Stopped(From("n1", 1, Exited{1}, At(1s)))})));
  EXPECT_FALSE(AllAskForRestart(Because({Stopped(From("n1", 1, Killed{15}, At(1s)))})));
  EXPECT_FALSE(AllAskForRestart(Because({From("n0", 0, Exited{75}, At(0s))})));  // No hello.
  EXPECT_FALSE(AllAskForRestart(Because({asks, From("n1", 1, Exited{1}, At(1s))})));
  EXPECT_FALSE(
      AllAskForRestart(Because({asks, Stopped(Hello(From("n1", 1, Exited{76}, At(1s))))})));
  EXPECT_FALSE(
      AllAskForRestart(Because({asks, Recorded(Stopped(From("n1", 1, Exited{1}, At(1s))))})));
  Drain drain = Because({asks});
  drain.spawn_failures = {"n1: cannot execute 'train': No such file or directory"};
  EXPECT_FALSE(AllAskForRestart(drain));
}

// It stood still, so that its peers gave it up.
TEST(Judgement, AKilledWorkerMayBeWhyTheOthersAsk) {
  const Evidence asks = Hello(From("n0", 0, Exited{75}, At(0s)));
  EXPECT_FALSE(AllAskForRestart(Because({asks, Stopped(From("n1", 1, Killed{9}, At(5s)))})));
}

TEST(Judgement, WithoutAWorkerToBlameNoRestartIsUsed) {
  EXPECT_FALSE(Judge(Drain{}, 0, 0).charged);
  EXPECT_FALSE(Judge(Drain{}, 0, 0).outcome);
}

}  // namespace
}  // namespace ddprun
