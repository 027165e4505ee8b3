// The runner against real processes that misbehave.
#include "agent/workers/process_runner.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <future>

#include "tests/support/runner_fixture.h"

namespace ddprun {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct ProcessRunnerTest : testing::RunnerTest {
  ProcessRunnerTest() : RunnerTest({.drain_limit = std::chrono::seconds(5)}) {}
};

// The first to end is the likely root cause.
TEST_F(ProcessRunnerTest, EndsAreReportedInTheOrderTheyHappen) {
  when_ended_ = [this](std::uint32_t rank) {
    std::ofstream(Scratch("after-" + std::to_string(rank))).close();
  };
  Spawn(3, {"--on-rank=0", "--wait-file=" + Scratch("after-2"), "--always", "--on-rank=1",
            "--wait-file=" + Scratch("after-0")});
  ASSERT_TRUE(RunUntilAllGone());
  EXPECT_THAT(order_, ElementsAre(2, 0, 1));
}

TEST_F(ProcessRunnerTest, AStoppedWorkerHearsTerm) {
  Spawn(1, {"--exit-on-term=7", "--touch=" + Scratch("%r"), "--stop-self", "--hang"});
  ASSERT_TRUE(RunUntilThere(Scratch("0")));
  runner_.SignalAll(SIGTERM);
  ASSERT_TRUE(RunUntilAllGone());
  EXPECT_EQ(ended_.at(0), ExitStatus(Exited{7}));
}

TEST_F(ProcessRunnerTest, TheErrorSaysWhatTheUserCanDo) {
  std::ofstream(Scratch("script")) << "echo hello\n";
  std::vector<WorkerSpec> specs = Specs(1, {});
  specs[0].command.file = Scratch("script");
  EXPECT_THAT(Spawn(specs).error().message, HasSubstr("chmod +x"));
  std::filesystem::permissions(Scratch("script"), std::filesystem::perms::owner_all);
  EXPECT_THAT(Spawn(specs).error().message, HasSubstr("#!"));
  std::ofstream(Scratch("script")) << "#!/nowhere/python\n";
  EXPECT_THAT(Spawn(specs).error().message, HasSubstr("but not the interpreter in its first line"));
  specs = Specs(1, {});
  specs[0].directory = "/nowhere";
  EXPECT_THAT(Spawn(specs).error().message, HasSubstr("enter the working directory"));
}

// A disk that hangs holds up neither the loop nor the next generation, and a process that it
// releases later finds that it is not wanted any more.
TEST_F(ProcessRunnerTest, AStartThatIsGivenUpBeginsNothing) {
  std::promise<void> disk;
  std::promise<bool> wanted;
  runner_.Spawn(
      [&, specs = Specs(1, {"--hang"}), answers = disk.get_future().share()](
          const BeginStep& begin) -> Result<std::vector<WorkerSpec>> {
        (void)begin("reading a disk");
        answers.wait();
        wanted.set_value(begin("going on").has_value());
        return specs;
      },
      [](const Result<void>&) { FAIL() << "it was given up"; });
  EXPECT_TRUE(RunUntil([this] { return runner_.Starting() == "reading a disk"; }));
  runner_.SignalAll(SIGUSR1);
  EXPECT_FALSE(runner_.Empty());
  runner_.SignalAll(SIGTERM);
  EXPECT_TRUE(runner_.Empty());
  ASSERT_TRUE(RunUntilAllGone());
  all_gone_ = false;
  Spawn(2, {});
  ASSERT_TRUE(RunUntilAllGone());
  EXPECT_EQ(ended_.size(), 2U);
  disk.set_value();
  EXPECT_FALSE(wanted.get_future().get());
  EXPECT_THAT(mark_.Living(), IsEmpty());
}

// A process that the agent started before is not the generation's: its status belongs to another
// owner.
TEST_F(ProcessRunnerTest, ChildrenFromBeforeAreLeftAlone) {
  const pid_t hanging = ::fork();
  if (hanging == 0) {
    ::pause();
    ::_exit(1);
  }
  const pid_t ended = ::fork();
  if (ended == 0) {
    ::_exit(42);
  }
  Spawn(2, {"--grandchild-setsid"});
  ASSERT_TRUE(RunUntilAllGone());
  EXPECT_EQ(::kill(hanging, 0), 0);
  int status = 0;
  EXPECT_EQ(::waitpid(ended, &status, 0), ended);
  EXPECT_EQ(WEXITSTATUS(status), 42);
  ::kill(hanging, SIGKILL);
  EXPECT_EQ(::waitpid(hanging, &status, 0), hanging);
}

// squeue may answer when the first generation is long over.
TEST_F(ProcessRunnerTest, AHelperThatWasStartedMeanwhileIsLeftAlone) {
  Spawn(2, {"--grandchild-setsid", "--wait-file=" + Scratch("go")});
  std::vector<WorkerSpec> helper = Specs(1, {"--hang"});
  helper[0].helper = true;
  const Result<LaunchedWorker> launched = LaunchWorker(helper[0], {0, 1, 2});
  ASSERT_TRUE(launched) << launched.error().message;
  const pid_t pid = launched->pid;
  std::ofstream(Scratch("go")).close();
  ASSERT_TRUE(RunUntilAllGone());
  EXPECT_THAT(mark_.Living(), ElementsAre(pid));
  int status = 0;
  EXPECT_EQ(::waitpid(pid, &status, WNOHANG), 0);
  ::kill(-pid, SIGKILL);
  EXPECT_EQ(::waitpid(pid, &status, 0), pid);
}

// The agent ignores signals, raises its limit of open files and has descriptors without CLOEXEC:
// none of that is a worker's.
TEST_F(ProcessRunnerTest, WorkersInheritNothingOfTheAgents) {
  ::signal(SIGINT, SIG_IGN);
  sigset_t blocked;
  sigset_t before;
  ::sigemptyset(&blocked);
  ::sigaddset(&blocked, SIGUSR1);
  ::sigprocmask(SIG_BLOCK, &blocked, &before);
  const int leak = ::open("/dev/null", O_RDONLY);
  const rlimit users = UserLimits()[RLIMIT_NOFILE].value();
  const rlimit agents{users.rlim_cur - 1, users.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &agents), 0);
  Spawn(2, {"--print-state"}, {.directory = scratch_.path(), .redirects = 3});
  ASSERT_TRUE(RunUntilAllGone());
  ::signal(SIGINT, SIG_DFL);
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  ::close(leak);
  ::setrlimit(RLIMIT_NOFILE, &users);
  const std::string state = testing::ReadText(Scratch("0/stdout.log"));
  EXPECT_THAT(state, HasSubstr("SigBlk:\t0000000000000000"));
  EXPECT_THAT(state, HasSubstr("SigIgn:\t0000000000000000"));
  EXPECT_THAT(state, HasSubstr("session own"));
  EXPECT_THAT(state, HasSubstr("nofile " + std::to_string(users.rlim_cur) + "\n"));
  EXPECT_THAT(state, HasSubstr("fds 0 1 2\n"));
}

}  // namespace
}  // namespace ddprun
