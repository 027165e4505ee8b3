// Guard and agent: signals, exit codes, and nothing left whoever of them dies.
#include "agent/guard.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "tests/support/launched.h"
#include "tests/support/marked.h"
#include "tests/support/scratch_directory.h"

namespace ddprun {
namespace {

using testing::Eventually;
using ::testing::HasSubstr;
using testing::Launched;

constexpr std::chrono::seconds kSoon{10};

class GuardTest : public ::testing::Test {
 protected:
  std::vector<std::string> Argv(int workers, std::vector<std::string> actions) const {
    std::vector<std::string> argv = {FAKE_LAUNCH, std::to_string(workers), FAKE_WORKER};
    argv.insert(argv.end(), actions.begin(), actions.end());
    return argv;
  }
  // The other of the two processes of a launch.
  pid_t AgentOf(const Launched& launch) const {
    for (const pid_t pid : mark_.Living("fake_launch")) {
      if (pid != launch.pid()) {
        return pid;
      }
    }
    return 0;
  }
  bool WorkersAreThere(std::size_t count) const {
    return Eventually([&] {
      std::size_t there = 0;
      for (const auto& entry : std::filesystem::directory_iterator(scratch_.path())) {
        there += entry.path().filename().native().starts_with("there-") ? 1 : 0;
      }
      return there == count;
    });
  }
  bool NothingIsLeft() const {
    return Eventually([&] { return mark_.Living().empty(); }, kSoon);
  }
  std::string Scratch(const std::string& name) const { return scratch_.path() / name; }
  std::string There() const { return "--touch=" + Scratch("there-%r"); }

  ScratchDirectory scratch_;
  testing::ProcessMark mark_;
};

// A stopped agent cannot clean up by itself.
TEST_F(GuardTest, NothingIsLeftWhenAStoppedAgentIsKilled) {
  Launched launch(Argv(1, {"--grandchild-setsid", There(), "--hang"}), {});
  ASSERT_TRUE(WorkersAreThere(1));
  ::kill(AgentOf(launch), SIGSTOP);
  ::kill(AgentOf(launch), SIGKILL);
  EXPECT_EQ(launch.Wait(), ExitStatus(Exited{128 + SIGKILL}));
  EXPECT_TRUE(NothingIsLeft());
}

// A scheduler signals every process of the job: guard and agent.
TEST_F(GuardTest, ASignalToBothCountsOnce) {
  Launched launch(Argv(2, {"--exit-on-term=5", There(), "--hang"}), {});
  ASSERT_TRUE(WorkersAreThere(2));
  ::kill(AgentOf(launch), SIGTERM);
  ::kill(AgentOf(launch), SIGUSR1);
  ::kill(launch.pid(), SIGTERM);
  EXPECT_EQ(launch.Wait(), ExitStatus(Exited{5}));
  launch.ReadToEnd();
  EXPECT_EQ(launch.output(), "signal 15\n");
}

TEST_F(GuardTest, WhatNohupIgnoresStaysIgnored) {
  Launched launch(Argv(2, {"--exit-on-term=5", There(), "--hang"}), {.ignore_hangup = true});
  ASSERT_TRUE(WorkersAreThere(2));
  ::kill(launch.pid(), SIGHUP);
  ::kill(launch.pid(), SIGTERM);
  EXPECT_EQ(launch.Wait(), ExitStatus(Exited{5}));
  launch.ReadToEnd();
  EXPECT_EQ(launch.output(), "signal 15\n");
}

// The terminal signals its whole foreground group; only the guard is in it.
TEST_F(GuardTest, CtrlCOnATerminalCountsOnce) {
  Launched launch(Argv(2, {There(), "--hang"}), {.terminal = true});
  ASSERT_TRUE(WorkersAreThere(2));
  launch.Type("\x03");
  EXPECT_EQ(launch.Wait(), ExitStatus(Exited{128 + SIGINT}));
  launch.ReadToEnd();
  EXPECT_THAT(launch.output(), HasSubstr("signal 2"));
  EXPECT_EQ(launch.output().find("signal 2"), launch.output().rfind("signal 2"));
  EXPECT_TRUE(NothingIsLeft());
}

// breakpoint() in a lone worker: it is in another session, so the terminal does not stop it.
TEST_F(GuardTest, ALoneWorkerReadsTheTerminal) {
  Launched launch(Argv(1, {There(), "--echo-stdin"}), {.terminal = true});
  ASSERT_TRUE(WorkersAreThere(1));
  launch.Type("continue\n");
  EXPECT_TRUE(launch.ReadUntil("read: continue"));
  EXPECT_EQ(launch.Wait(), ExitStatus(Exited{0}));
}

// Stopped training would time out on every other node.
TEST_F(GuardTest, CtrlZStopsOnlyTheGuard) {
  Launched launch(Argv(2, {There(), "--wait-file=" + Scratch("go"), "--touch=" + Scratch("done-%r"),
                           "--exit=3"}),
                  {.own_group = true});
  ASSERT_TRUE(WorkersAreThere(2));
  ::kill(launch.pid(), SIGTSTP);
  ASSERT_TRUE(Eventually([&] { return launch.Stopped(); }));
  std::ofstream(Scratch("go")).close();
  EXPECT_TRUE(Eventually([&] {
    return std::filesystem::exists(Scratch("done-0")) || std::filesystem::exists(Scratch("done-1"));
  }));
  ::kill(launch.pid(), SIGCONT);
  EXPECT_EQ(launch.Wait(), ExitStatus(Exited{3}));
}

// The slot lock of a node must outlive the agent until the last worker is gone.
TEST_F(GuardTest, ADescriptorIsHeldUntilTheEnd) {
  const std::string lock = Scratch("lock");
  const auto taken = [&] {
    const UniqueFd fd(::open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    return ::flock(fd.get(), LOCK_EX | LOCK_NB) != 0;
  };
  const pid_t guard = ::fork();
  if (guard == 0) {
    ::_exit(RunGuarded([&](GuardLink link) {
      {
        const UniqueFd fd(::open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
        const bool held = ::flock(fd.get(), LOCK_EX) == 0 && link.HoldUntilGone(fd.get());
        std::ofstream(Scratch(held ? "held" : "not held")).close();
      }
      return Eventually([&] { return std::filesystem::exists(Scratch("go")); }) ? 21 : 22;
    }));
  }
  EXPECT_TRUE(Eventually([&] { return std::filesystem::exists(Scratch("held")); }));
  EXPECT_TRUE(taken());
  std::ofstream(Scratch("go")).close();
  int status = 0;
  ASSERT_EQ(::waitpid(guard, &status, 0), guard);
  EXPECT_EQ(WEXITSTATUS(status), 21);
  EXPECT_FALSE(taken());
}

// What the agent left last, even if it dies right after it said so.
TEST_F(GuardTest, ATextThatTheAgentLeftIsDealtWithAfterItsDeath) {
  for (const std::string last : {"second", ""}) {
    const pid_t guard = ::fork();
    if (guard == 0) {
      ::_exit(RunGuarded(
          [&](GuardLink link) {
            link.LeaveAtDeath("first");
            link.LeaveAtDeath(last);
            ::raise(SIGKILL);
            return 0;
          },
          [&](const std::string& text) { std::ofstream(Scratch("left")) << text; }));
    }
    int status = 0;
    ASSERT_EQ(::waitpid(guard, &status, 0), guard);
    EXPECT_EQ(WEXITSTATUS(status), 128 + SIGKILL);
    EXPECT_EQ(std::filesystem::exists(Scratch("left")), !last.empty());
    std::string text;
    std::getline(std::ifstream(Scratch("left")) >> std::ws, text);
    EXPECT_EQ(text, last);
    std::filesystem::remove(Scratch("left"));
  }
}

}  // namespace
}  // namespace ddprun
