// The guard alone. Signals and deaths of guard and agent are in tests/fault/one_node_fault_test.py.
#include "agent/guard.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "common/exit_code.h"
#include "tests/support/marked.h"
#include "tests/support/scratch_directory.h"

namespace ddprun {
namespace {

using testing::Eventually;

class GuardTest : public ::testing::Test {
 protected:
  std::string Scratch(const std::string& name) const { return scratch_.path() / name; }

  ScratchDirectory scratch_;
};

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

// A scheduler starts a launch again after this code, not after one that a worker may have had.
TEST_F(GuardTest, WithoutAProcessForTheAgentDdprunItselfHasFailed) {
  ::testing::internal::CaptureStderr();
  const pid_t guard = ::fork();
  if (guard == 0) {
    constexpr uid_t kNobody = 65534;  // Root has no such limit.
    const rlimit none{};
    const bool limited = (::geteuid() != 0 || ::setresuid(kNobody, kNobody, kNobody) == 0) &&
                         ::setrlimit(RLIMIT_NPROC, &none) == 0;
    ::_exit(limited ? RunGuarded([](GuardLink) { return 21; }) : 22);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(guard, &status, 0), guard);
  EXPECT_EQ(WEXITSTATUS(status), kExitInternal);
  EXPECT_THAT(
      ::testing::internal::GetCapturedStderr(),
      ::testing::HasSubstr("error: cannot start the agent: Resource temporarily unavailable "
                           "(the limit of processes is reached: ulimit -u, "));
}

// The agent's last words, even if it dies right after it said so.
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
