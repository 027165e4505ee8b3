// The runner on a machine that has no room for one more process. The kernel refuses root nothing of
// the kind, so clone() is refused here.
#include <dlfcn.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <stdarg.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <string>

#include "agent/workers/output_sink.h"
#include "tests/support/no_more_threads.h"
#include "tests/support/runner_fixture.h"

namespace {

std::atomic<int> to_refuse = 0;
std::atomic<int> refused = 0;
std::atomic<int> answer = EAGAIN;

}  // namespace

// The one that processes are begun with; the C library's own threads do not come by here.
extern "C" int clone(int (*run)(void*), void* stack, int flags, void* argument, ...) noexcept {
  va_list rest;
  va_start(rest, argument);
  void* const pidfd = va_arg(rest, void*);
  va_end(rest);
  if (to_refuse > 0) {
    --to_refuse;
    ++refused;
    errno = answer;
    return -1;
  }
  using Clone = int (*)(int (*)(void*), void*, int, void*, ...);
  static const auto real = reinterpret_cast<Clone>(::dlsym(RTLD_NEXT, "clone"));
  return real(run, stack, flags, argument, pidfd);
}

namespace ddprun {
namespace {

using std::chrono_literals::operator""ms;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class CrowdedMachine : public testing::RunnerTest {
 protected:
  explicit CrowdedMachine(Duration patience = Duration{60'000})
      : RunnerTest({.crowd_patience = patience}) {
    to_refuse = refused = 0;
    answer = EAGAIN;
  }
  ~CrowdedMachine() override { to_refuse = 0; }

  void BeginToSpawnTwo() { BeginToSpawn(Specs(2, {"--hang"})); }
};

struct ImpatientOnCrowdedMachine : CrowdedMachine {
  ImpatientOnCrowdedMachine() : CrowdedMachine(120ms) {}
};

// Others end in the next moment: no restart is worth that.
TEST_F(CrowdedMachine, AProcessThatCannotBeHadIsTriedAgain) {
  to_refuse = 2;
  BeginToSpawnTwo();
  ASSERT_TRUE(RunUntil([this] { return spawned_.has_value(); }));
  EXPECT_TRUE(*spawned_) << spawned_->error().message;
  EXPECT_EQ(refused, 2);
  runner_.KillAll();
  EXPECT_TRUE(RunUntilAllGone());
}

TEST_F(CrowdedMachine, PeopleHearWhatAStartWaitsForAndItCanBeGivenUp) {
  to_refuse = 1'000'000;
  BeginToSpawnTwo();
  const auto says = [this](const char* text) {
    return runner_.Starting().find(text) != std::string::npos;
  };
  EXPECT_TRUE(RunUntil([&] { return says("trying again for up to 1 min 00 s: cannot start"); }));
  EXPECT_TRUE(
      says("Resource temporarily unavailable (the limit of processes is reached: ulimit -u, "))
      << runner_.Starting();
  runner_.KillAll();
  EXPECT_TRUE(RunUntilAllGone());
  EXPECT_FALSE(spawned_);
  EXPECT_THAT(mark_.Living(), IsEmpty());
}

TEST_F(ImpatientOnCrowdedMachine, NotForEver) {
  to_refuse = 1'000'000;
  answer = ENOMEM;
  BeginToSpawnTwo();
  ASSERT_TRUE(RunUntil([this] { return spawned_.has_value(); }));
  ASSERT_FALSE(*spawned_);
  EXPECT_THAT(spawned_->error().message,
              HasSubstr("Cannot allocate memory (no memory for one more process); tried "
                        "again for 120 ms"));
  EXPECT_GT(refused, 1);
  EXPECT_THAT(mark_.Living(), IsEmpty());
}

// A program that is not there will not be there in a moment.
TEST_F(CrowdedMachine, AStartThatTheMachineRefusesForOtherReasonsIsTriedOnce) {
  to_refuse = 1'000'000;
  answer = EPERM;
  BeginToSpawnTwo();
  ASSERT_TRUE(RunUntil([this] { return spawned_.has_value(); }));
  EXPECT_FALSE(*spawned_);
  EXPECT_EQ(refused, 1);
}

TEST_F(CrowdedMachine, WithoutAThreadTheLoopWritesOutput) {
  const testing::NoMoreThreads none;
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
  const UniqueFd reader(ends[0]);
  OutputSink sink(loop_, UniqueFd(ends[1]), "standard output");
  const std::string line = std::string(99, 'x') + "\n";
  std::string all;
  while (sink.HasRoom()) {
    all += line;
    sink.Append(line);
  }
  std::string read;
  EXPECT_TRUE(RunUntil([&] {
    char bytes[4096];
    for (ssize_t got; (got = ::read(reader.get(), bytes, sizeof bytes)) > 0;) {
      read.append(bytes, static_cast<std::size_t>(got));
    }
    return sink.Idle();
  }));
  EXPECT_EQ(read, all);
}

}  // namespace
}  // namespace ddprun
