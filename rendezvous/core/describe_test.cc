#include "rendezvous/messages/describe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rendezvous/core/testing/scenario.h"

namespace ddprun {
namespace {

TEST(Describe, AFailureNamesTheRankAndTheCause) {
  WorkerFailure failure{.rank = 5, .local_rank = 1, .pid = 77, .status = Killed{9}, .host = "h"};
  EXPECT_EQ(Describe(failure),
            "rank 5 (local rank 1, pid 77, host h) was killed by signal 9 (SIGKILL)");
  failure.details.message = kMemoryRanOut;
  EXPECT_EQ(
      Describe(failure),
      "rank 5 (local rank 1, pid 77, host h) was killed by signal 9 (SIGKILL): memory ran out");
  failure.last_lines = "  File \"x.py\", line 3\nValueError: bad\n";
  EXPECT_THAT(Describe(failure), testing::EndsWith("memory ran out"));
  failure.details.message = "anything else";
  failure.status = Exited{3};
  failure.pid = 0;
  EXPECT_EQ(Describe(failure), "rank 5 (local rank 1, host h) ended with exit code 3");
}

TEST(Describe, AFailureEndsWithThePythonExceptionThatIsKnown) {
  WorkerFailure failure{.rank = 5, .local_rank = 1, .status = Exited{1}, .host = "h"};
  const std::string who = "rank 5 (local rank 1, host h) ended with exit code 1";
  failure.last_lines = "  File \"x.py\", line 3\nValueError: bad\n[W123] a warning of torch's\n\n";
  EXPECT_EQ(Describe(failure), who + ": ValueError: bad");
  failure.last_lines = "[rank5]:   File \"x.py\", line 3\n[rank5]: ValueError: bad\n";
  EXPECT_EQ(Describe(failure), who + ": ValueError: bad");
  failure.last_lines = "a.b.MyException";
  EXPECT_EQ(Describe(failure), who + ": a.b.MyException");
  failure.details.message = "torch.OutOfMemoryError: CUDA\nmore";  // @record's.
  EXPECT_EQ(Describe(failure), who + ": torch.OutOfMemoryError: CUDA");
  failure.details.message.clear();
  failure.last_lines = "KeyError: " + std::string(1'000, 'x');
  EXPECT_EQ(Describe(failure).size(), who.size() + 202);
  failure.last_lines = "KeyError: " + std::string(150, 'x') + " a message-" + std::string(90, 'y');
  EXPECT_EQ(Describe(failure), who + ": KeyError: " + std::string(150, 'x') + " a...");
  failure.details.message = "MemoryError: ";
  EXPECT_EQ(Describe(failure), who + ": MemoryError");
  failure.details.message.clear();
  for (const char* const other : {"", "INFO: all done", "this is an Error: 3", "\n\n[x]\n"}) {
    failure.last_lines = other;
    EXPECT_EQ(Describe(failure), who) << other;
  }
}

TEST(Describe, ARunWithoutANameIsNotCalledNone) {
  EXPECT_EQ(NameOf("demo"), "run 'demo'");
  EXPECT_EQ(NameOf("none"), "run");
}

TEST(Describe, AWaitAlwaysSaysWhyAndHowLong) {
  EXPECT_EQ(Describe(WaitReason{WaitFor::kNodes, 3, 4, 4, {"n03"}, 598s}),
            "waiting for nodes: 3 of 4 are here; missing n03; giving up in 9 min 58 s");
  EXPECT_EQ(Describe(WaitReason{WaitFor::kLastCall, 2, 1, 4, {}, 2s}),
            "waiting for more nodes: 2 of at most 4 are here; starting with 2 in 2.0 s");
  EXPECT_EQ(Describe(WaitReason{WaitFor::kDrain, 2, 1, 4, {"n1", "n2"}, {}}),
            "waiting for n1 n2 to stop their previous workers");
  for (const WaitFor what :
       {WaitFor::kPeers, WaitFor::kSpare, WaitFor::kEarlierSelf, WaitFor::kRecovery}) {
    EXPECT_FALSE(Describe(WaitReason{.what = what}).empty());
  }
}

}  // namespace
}  // namespace ddprun
