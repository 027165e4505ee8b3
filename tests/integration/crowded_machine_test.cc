// The runner on a machine that has no room for one more process. The kernel refuses root nothing of
// the kind, so clone() is refused here.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <stdarg.h>

#include <atomic>
#include <cerrno>

#include "agent/workers/process_runner.h"
#include "tests/support/marked.h"

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

constexpr std::chrono::seconds kLimit{10};

class CrowdedMachine : public ::testing::Test {
 protected:
  explicit CrowdedMachine(Duration patience = Duration{60'000})
      : runner_(loop_, {.crowd_patience = patience},
                {.on_ended = [](std::uint32_t, ExitStatus, LastErrors) {},
                 .on_all_gone = [this] { all_gone_ = true; },
                 .on_unkillable = [](std::vector<pid_t>) { FAIL() << "SIGKILL did not help"; }}) {
    to_refuse = refused = 0;
    answer = EAGAIN;
  }
  ~CrowdedMachine() override { to_refuse = 0; }

  void Spawn() {
    std::vector<WorkerSpec> specs;
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
      const WorkerEnv env{.rank = rank, .local_rank = rank, .world_size = 2, .local_world_size = 2};
      specs.push_back(MakeWorkerSpec({.file = FAKE_WORKER, .argv = {"fake_worker", "--hang"}}, env,
                                     ProcessEnvironment(), {}));
    }
    runner_.Spawn([specs](Making&) -> Result<std::vector<WorkerSpec>> { return specs; },
                  [&](const Result<void>& result) { spawned_ = result; });
  }
  bool RunUntil(const std::function<bool()>& condition) {
    const auto end = std::chrono::steady_clock::now() + kLimit;
    while (!condition() && std::chrono::steady_clock::now() < end) {
      loop_.io().run_one_for(std::chrono::milliseconds(2));
    }
    return condition();
  }
  bool RunUntilAllGone() {
    return RunUntil([this] { return all_gone_; });
  }

  testing::ProcessMark mark_;
  AsioLoop loop_;
  std::optional<Result<void>> spawned_;
  bool all_gone_ = false;
  ProcessRunner runner_;
};

struct ImpatientOnCrowdedMachine : CrowdedMachine {
  ImpatientOnCrowdedMachine() : CrowdedMachine(120ms) {}
};

// Others end in the next moment: no restart is worth that.
TEST_F(CrowdedMachine, AProcessThatCannotBeHadIsTriedAgain) {
  to_refuse = 2;
  Spawn();
  ASSERT_TRUE(RunUntil([this] { return spawned_.has_value(); }));
  EXPECT_TRUE(*spawned_) << spawned_->error().message;
  EXPECT_EQ(refused, 2);
  runner_.KillAll();
  EXPECT_TRUE(RunUntilAllGone());
}

TEST_F(CrowdedMachine, PeopleAreToldWhatAStartWaitsForAndItCanBeGivenUp) {
  to_refuse = 1'000'000;
  Spawn();
  const auto says = [this](const char* text) {
    return runner_.Starting().find(text) != std::string::npos;
  };
  EXPECT_TRUE(RunUntil([&] { return says("it is tried again for 1 min 00 s: cannot start"); }));
  EXPECT_TRUE(says("Resource temporarily unavailable (no room for one more process: ulimit -u, "))
      << runner_.Starting();
  runner_.KillAll();
  EXPECT_TRUE(RunUntilAllGone());
  EXPECT_FALSE(spawned_);
  EXPECT_THAT(mark_.Living(), IsEmpty());
}

TEST_F(ImpatientOnCrowdedMachine, NotForEver) {
  to_refuse = 1'000'000;
  answer = ENOMEM;
  Spawn();
  ASSERT_TRUE(RunUntil([this] { return spawned_.has_value(); }));
  ASSERT_FALSE(*spawned_);
  EXPECT_THAT(spawned_->error().message,
              HasSubstr("Cannot allocate memory (no memory for one more process); it was tried "
                        "again for 120 ms"));
  EXPECT_GT(refused, 1);
  EXPECT_THAT(mark_.Living(), IsEmpty());
}

// A program that is not there will not be there in a moment.
TEST_F(CrowdedMachine, WhatTheMachineRefusesForOtherReasonsIsTriedOnce) {
  to_refuse = 1'000'000;
  answer = EPERM;
  Spawn();
  ASSERT_TRUE(RunUntil([this] { return spawned_.has_value(); }));
  EXPECT_FALSE(*spawned_);
  EXPECT_EQ(refused, 1);
}

}  // namespace
}  // namespace ddprun
