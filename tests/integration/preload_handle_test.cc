// Preload processes that do not do what they should, and what becomes of the workers.
#include "agent/workers/preload_handle.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <map>
#include <memory>

#include "agent/workers/process_tree.h"
#include "agent/workers/warm_start.h"
#include "common/log.h"
#include "proto/preload_protocol.h"
#include "proto/worker_env.h"

namespace ddprun {
namespace {

using ::testing::HasSubstr;

constexpr Duration kLimit{10'000};

WorkerSpec Fake(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "fake_preload");
  return MakeWorkerSpec({.file = FAKE_PRELOAD, .argv = arguments}, {}, ProcessEnvironment(), {});
}

class PreloadHandleTest : public ::testing::Test {
 protected:
  // Workers come to whom the process between leaves behind: the agent is a subreaper.
  PreloadHandleTest() { ::prctl(PR_SET_CHILD_SUBREAPER, 1); }
  ~PreloadHandleTest() override {
    process_.reset();
    while (::waitpid(-1, nullptr, 0) > 0) {
    }
  }

  Result<void> Start(std::vector<std::string> arguments, Duration limit = kLimit) {
    process_ = PreloadHandle::Start(Fake(std::move(arguments)), {0, 1, 2}).value();
    const LaunchUnderWay launch;
    return process_->AwaitReady(limit, launch);
  }
  std::string WhyNotReady(std::vector<std::string> arguments, Duration limit = kLimit) {
    const Result<void> ready = Start(std::move(arguments), limit);
    return ready ? "it is ready" : ready.error().message;
  }
  Result<LaunchedWorker> Fork(WorkerSpec spec) {
    LaunchUnderWay under_way;
    return process_->Fork(spec, {0, 1, 2}, {}, under_way);
  }
  std::string WhyNotForked(const std::string& how) {
    EXPECT_TRUE(Start({how}));
    const auto worker = Fork(Fake({how}));
    return worker ? "it is forked" : worker.error().message;
  }
  static int CodeOf(pid_t pid) {
    int status = 0;
    EXPECT_EQ(::waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  std::shared_ptr<PreloadHandle> process_;
};

TEST_F(PreloadHandleTest, AFailureOfTheSetUpIsSaid) {
  ASSERT_TRUE(Start({"honest"}));
  WorkerSpec spec = Fake({"honest"});
  spec.directory = "/there/is/no/such/place";
  const auto worker = Fork(spec);
  ASSERT_FALSE(worker);
  EXPECT_THAT(worker.error().message, HasSubstr("No such file or directory"));
  EXPECT_FALSE(process_->gone());  // It was not at fault.
  EXPECT_TRUE(Fork(Fake({"honest"})));
}

TEST_F(PreloadHandleTest, OneThatLoadsIsNotWaitedForLongerThanSaid) {
  EXPECT_THAT(WhyNotReady({"silent"}, Duration(20)), HasSubstr("it is still being loaded"));
  EXPECT_FALSE(process_->gone());
  EXPECT_FALSE(process_->ready());
}

TEST_F(PreloadHandleTest, OneThatDoesNotSpeakAsItShouldIsGone) {
  for (const auto& [how, why] : std::map<std::string, std::string>{
           {"ends", "it ended while it was loaded"},
           {"version", "it ended while it was loaded"},
           {"short", "it ended while it was loaded"},
           {"refuses", std::string(sizeof(PreloadReply::text) - 1, 'x')}}) {
    EXPECT_EQ(WhyNotReady({how}), why) << how;
    EXPECT_TRUE(process_->gone()) << how;
  }
}

TEST_F(PreloadHandleTest, AProcessThatIsNoWorkerOfItsIsNotTaken) {
  const pid_t self = ::getpid();
  for (const std::string how : {"names-other", "names-agent"}) {
    EXPECT_THAT(WhyNotForked(how), HasSubstr("not a worker of its own")) << how;
    EXPECT_TRUE(process_->gone());
  }
  EXPECT_EQ(::getpid(), self);
  EXPECT_THAT(WhyNotForked("cannot-fork"), HasSubstr("it cannot fork: Resource temporarily"));
  EXPECT_TRUE(process_->gone());
  EXPECT_THAT(WhyNotForked("names-itself"), HasSubstr("it has ended"));
}

// Late, and then asked again without an answer: no third worker waits for it.
TEST_F(PreloadHandleTest, OneThatNeverAnswersIsAskedTwice) {
  ASSERT_TRUE(Start({"ready-never-forks"}));
  EXPECT_FALSE(Fork(Fake({"ready-never-forks"})));
  EXPECT_FALSE(process_->gone());
  EXPECT_FALSE(Fork(Fake({"ready-never-forks"})));
  EXPECT_TRUE(process_->gone());
}

// An answer that belongs to a worker that was given up is not the next one's.
TEST_F(PreloadHandleTest, ALateAnswerIsNotTheNextWorkers) {
  ASSERT_TRUE(Start({"late", "exit 6"}));
  EXPECT_FALSE(Fork(Fake({"late"})));
  const auto worker = Fork(Fake({"late"}));
  ASSERT_TRUE(worker) << worker.error().message;
  EXPECT_EQ(CodeOf(worker->pid), 6);
}

// A caller that gives the start up does not wait for the preload process's patience, and no worker
// is left.
TEST_F(PreloadHandleTest, AStartThatWasGivenUpLeavesNothing) {
  ASSERT_TRUE(Start({"honest", "sleep 600"}));
  LaunchUnderWay under_way;
  under_way.GiveUp();
  EXPECT_FALSE(process_->Fork(Fake({"honest"}), {0, 1, 2}, {}, under_way));
  process_.reset();  // And the fixture finds no child that lives.
}

class WarmStartTest : public ::testing::Test {
 protected:
  WarmStartTest() {
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    StartLog("ddprun", LogLevel::kDebug);
  }
  ~WarmStartTest() override {
    warm_.reset();
    while (::waitpid(-1, nullptr, 0) > 0) {
    }
  }

  // Ready for workers, if it can be one.
  void Plan(WorkerSpec spec) {
    warm_ = std::make_unique<WarmStart>(
        WarmPlan{.spec = std::move(spec), .own = NamesOfWorkers(true), .inherit = true},
        [this](const WorkerSpec&, OpenedOutput) { ++started_; });
    ::testing::internal::CaptureStderr();
    warm_->Prepare();
    warm_->Await(LaunchUnderWay());
  }
  // The reason in the log; "": it is warm.
  std::string Launch(const WorkerSpec& spec, ChildStdio stdio = {0, 1, 2}) {
    ::testing::internal::GetCapturedStderr();
    ::testing::internal::CaptureStderr();
    LaunchUnderWay under_way;
    const auto worker = warm_->Launch(spec, stdio, under_way);
    EXPECT_TRUE(worker);
    int status = 0;
    EXPECT_EQ(::waitpid(worker ? worker->pid : 0, &status, 0), worker ? worker->pid : -1);
    EXPECT_EQ(status, 0);
    const std::string said = ::testing::internal::GetCapturedStderr();
    ::testing::internal::CaptureStderr();
    return said;
  }
  void TearDown() override { ::testing::internal::GetCapturedStderr(); }

  std::unique_ptr<WarmStart> warm_;
  int started_ = 0;
};

// The rows of the table in warm_start.h.
TEST_F(WarmStartTest, VariablesOfRanksAndGenerationsAloneAreWarm) {
  Plan(Fake({"honest"}));
  WorkerSpec spec = Fake({"honest"});
  for (const std::string& name : NamesOfWorkers(true)) {
    spec.environment[name] = "anything";
  }
  EXPECT_EQ(Launch(spec), "");
  EXPECT_EQ(started_, 1);
}

TEST_F(WarmStartTest, AnythingElseThatDiffersIsColdAndSaid) {
  Plan(Fake({"honest"}));
  WorkerSpec more = Fake({"honest"});
  more.environment["MINE"] = "1";
  EXPECT_THAT(Launch(more), HasSubstr("preload process not used: their variable MINE differs"));
  WorkerSpec less = Fake({"honest"});
  less.environment.erase("PATH");
  EXPECT_THAT(Launch(less), HasSubstr("their variable PATH differs"));
  EXPECT_EQ(Launch(less), "");  // Said once.
  EXPECT_THAT(Launch(Fake({"honest", "true"})), HasSubstr("their arguments differ"));
  WorkerSpec bound = Fake({"honest"});
  bound.cpus = CpuSet{0};
  bound.environment.erase("OMP_NUM_THREADS");
  EXPECT_THAT(Launch(bound), HasSubstr("OpenMP"));
}

TEST_F(WarmStartTest, AStreamOfAnotherKindIsCold) {
  Plan(Fake({"honest"}));
  struct stat output {};
  ASSERT_EQ(::fstat(1, &output), 0);
  int ends[2];
  ASSERT_EQ(S_ISFIFO(output.st_mode) ? ::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) : ::pipe(ends),
            0);
  EXPECT_THAT(Launch(Fake({"honest"}), {0, ends[1], 2}), HasSubstr("stream 1 is of another kind"));
  ::close(ends[0]);
  ::close(ends[1]);
}

// Each that dies is replaced, but not for ever; a worker is never missing.
TEST_F(WarmStartTest, FivePreloadProcessesAreMadeAtMost) {
  Plan(Fake({"honest"}));
  for (int made = 1; made <= WarmStart::kMostPreloadProcesses; ++made) {
    EXPECT_EQ(started_, made);
    const std::vector<pid_t> children = ChildrenOf(::getpid());
    ASSERT_EQ(children.size(), 1u);
    siginfo_t gone{};
    ::kill(children[0], SIGKILL);
    ASSERT_EQ(::waitid(P_ALL, 0, &gone, WEXITED | WNOWAIT), 0);
    EXPECT_THAT(Launch(Fake({"honest"})), HasSubstr(made == 1 ? "preload process not used" : ""));
    warm_->Prepare();
    warm_->Await(LaunchUnderWay());
  }
  EXPECT_EQ(started_, WarmStart::kMostPreloadProcesses);
}

// A program without the note is started from its file, and nothing is said about it.
TEST_F(WarmStartTest, AnOrdinaryProgramIsNoPreloadProcess) {
  WorkerSpec spec =
      MakeWorkerSpec({.file = "/bin/true", .argv = {"true"}}, {}, ProcessEnvironment(), {});
  Plan(spec);
  EXPECT_EQ(warm_->WaitsFor(), "");
  EXPECT_EQ(Launch(spec), "");
  EXPECT_EQ(started_, 0);
}

}  // namespace
}  // namespace ddprun
