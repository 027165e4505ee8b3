// Life locks of real processes.
#include "agent/watch/life_locks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <functional>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "common/asio_loop.h"
#include "common/files.h"
#include "proto/life_lock.h"
#include "rendezvous/testing/pump.h"

namespace ddprun {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

class LifeLocksTest : public ::testing::Test {
 protected:
  ~LifeLocksTest() override {
    for (const pid_t pid : pids_) {
      ::kill(pid, SIGKILL);
      ::waitpid(pid, nullptr, 0);
    }
    for (const int fd : {ready_[0], ready_[1]}) {
      ::close(fd);
    }
  }

  void SetUp() override {
    file_ = watch_.Offer();
    ASSERT_NE(file_, "");
    ASSERT_EQ(::pipe2(ready_, O_CLOEXEC), 0);
  }

  // A process that takes the lock of its number, does this, and else waits to be killed.
  void Start(const std::function<void()>& what = [] {}) {
    const std::string variable = LifeLockOf(file_, static_cast<std::uint32_t>(pids_.size()));
    const pid_t pid = ::fork();
    if (pid == 0) {
      ::setenv(kLifeLockVariable, variable.c_str(), 1);
      TakeLifeLock();
      what();
      Ready();
      for (;;) {
        ::pause();
      }
    }
    pids_.push_back(pid);
  }
  void Ready() const { (void)!::write(ready_[1], "", 1); }
  void AwaitReady(std::size_t count) const {
    for (char byte = 0; count > 0 && ::read(ready_[0], &byte, 1) == 1; --count) {
    }
  }
  // All, until so many are ready.
  void Watch(std::size_t count) {
    watch_.Watch(pids_);
    AwaitReady(count);
  }
  void Kill(std::size_t n) const { ::kill(pids_[n], SIGKILL); }
  // Without taking it away.
  void AwaitEnd(std::size_t n) const {
    siginfo_t ended;
    ::waitid(P_PID, static_cast<id_t>(pids_[n]), &ended, WEXITED | WNOWAIT);
  }

  // The last one is killed and reported: entries marked before it have been judged.
  std::set<std::uint32_t> ToldBeforeTheLast() {
    Kill(pids_.size() - 1);
    const auto last = static_cast<std::uint32_t>(pids_.size() - 1);
    EXPECT_TRUE(RunUntil([&] { return told_.contains(last); }));
    std::set<std::uint32_t> others = told_;
    others.erase(last);
    return others;
  }

  bool RunUntil(const std::function<bool()>& condition) { return PumpUntil(loop_, condition); }

  // The child's own place in the page.
  std::uint32_t& Word(std::size_t number) const {
    const int fd = ::open(file_.c_str(), O_RDWR | O_CLOEXEC);
    void* const mapped =
        ::mmap(nullptr, sizeof(LifeLocks), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    ::close(fd);
    return static_cast<LifeLocks*>(mapped)->locks[number].word();
  }

  AsioLoop loop_;
  std::set<std::uint32_t> told_;
  std::vector<pid_t> pids_;
  LifeLockWatch watch_{loop_, [this](std::uint32_t local_rank, pid_t process) {
                         EXPECT_EQ(pids_.at(local_rank), process);
                         EXPECT_TRUE(told_.insert(local_rank).second);
                       }};
  std::string file_;
  int ready_[2] = {-1, -1};
};

int Wake(std::uint32_t& word) {
  return static_cast<int>(::syscall(SYS_futex, &word, FUTEX_WAKE, 1, nullptr, nullptr, 0));
}

TEST_F(LifeLocksTest, ADeathIsReportedOfAnyProcess) {
  Start();
  Start([] { ::_exit(7); });
  Start([] { ::raise(SIGTERM); });
  Start();
  Watch(2);
  EXPECT_TRUE(RunUntil([this] { return told_.size() == 2; }));
  EXPECT_THAT(told_, ElementsAre(1, 2));
  Kill(0);
  EXPECT_TRUE(RunUntil([this] { return told_.size() == 3; }));
  EXPECT_THAT(told_, ElementsAre(0, 1, 2));
}

TEST_F(LifeLocksTest, TheThreadsOfOneThatIsKilledDieWithIt) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer ends a forked process that starts a thread";
#endif
  Start([] {
    for (int i = 0; i < 30; ++i) {
      std::thread([] { ::pause(); }).detach();
    }
  });
  Watch(1);
  Kill(0);
  EXPECT_TRUE(RunUntil([this] { return told_.contains(0); }));
}

TEST_F(LifeLocksTest, OneThatHasDiedBeforeItIsWatchedIsReported) {
  Start();
  AwaitReady(1);
  Kill(0);
  AwaitEnd(0);
  Watch(0);
  EXPECT_TRUE(RunUntil([this] { return told_.contains(0); }));
}

// It passes there too, and its peers need not stop.
TEST_F(LifeLocksTest, ANormalEndIsNoDeath) {
  Start([] { ::_exit(0); });
  Start();
  Watch(1);
  AwaitEnd(0);
  EXPECT_THAT(ToldBeforeTheLast(), IsEmpty());
}

TEST_F(LifeLocksTest, AnotherProgramInItsPlaceIsNoDeath) {
  const std::string go = "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(ready_[1]);
  Start([&] {
    ::execl("/bin/sh", "sh", "-c", ("printf . > " + go + "; exec sleep 1000").c_str(), nullptr);
  });
  Start();
  Watch(2);
  EXPECT_THAT(ToldBeforeTheLast(), IsEmpty());
}

TEST_F(LifeLocksTest, TheEndOfItsFirstThreadIsNoDeath) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer ends a forked process that starts a thread";
#endif
  Start([this] {
    std::thread([this] {
      const std::string first = "/proc/self/task/" + std::to_string(::getpid()) + "/stat";
      for (std::string state; state != "Z";) {
        std::ifstream(first) >> state >> state >> state;
      }
      Ready();
      ::pause();
    }).detach();
    ::syscall(SYS_exit, 7);
  });
  Start();
  Watch(2);
  EXPECT_THAT(ToldBeforeTheLast(), IsEmpty());
}

TEST_F(LifeLocksTest, AMarkThatIsWrittenIsNoDeath) {
  Start([this] {
    std::uint32_t& word = Word(0);
    __atomic_store_n(&word, FUTEX_OWNER_DIED, __ATOMIC_SEQ_CST);
    Wake(word);
  });
  Start([this] { Word(1) = 12345; });
  Start();
  Watch(3);
  Kill(1);  // Its lock said nothing of it.
  EXPECT_THAT(ToldBeforeTheLast(), IsEmpty());
}

// A mark that another one writes says nothing, and costs a hint at most.
TEST_F(LifeLocksTest, AWorkerCannotEndAnother) {
  Start();
  Start([this] { Word(0) = FUTEX_OWNER_DIED; });
  Start();
  Watch(3);
  EXPECT_THAT(ToldBeforeTheLast(), IsEmpty());
}

TEST_F(LifeLocksTest, AWorkerThatWakesAgainAndAgainIsNotListenedTo) {
  std::uint32_t& wakes = Word(kLifeLocks);
  Start([this, &wakes] {
    std::uint32_t& word = Word(0);
    for (int in_vain = 0; in_vain < 1'000;) {
      const int woken = Wake(word);
      wakes += static_cast<std::uint32_t>(woken);
      in_vain = woken > 0 ? 0 : in_vain + 1;
      std::this_thread::yield();
    }
  });
  Watch(1);
  EXPECT_LE(wakes, 5U);
}

TEST_F(LifeLocksTest, AChildOfTheWorkerTakesNoLock) {
  Start([] {
    if (const pid_t child = ::fork(); child == 0) {
      TakeLifeLock();
      ::_exit(7);
    } else {
      ::waitpid(child, nullptr, 0);
    }
  });
  Watch(1);
  EXPECT_EQ(Word(0) & FUTEX_TID_MASK, static_cast<std::uint32_t>(pids_[0]));
  Kill(0);
  EXPECT_TRUE(RunUntil([this] { return told_.contains(0); }));
}

TEST_F(LifeLocksTest, TheNextWorkersFindFreeLocks) {
  Start();
  Watch(1);
  watch_.End();
  Kill(0);
  AwaitEnd(0);
  EXPECT_EQ(watch_.Offer(), file_);
  ::waitpid(pids_[0], nullptr, 0);
  pids_.clear();
  Start();
  Watch(1);
  Kill(0);
  EXPECT_TRUE(RunUntil([this] { return told_.contains(0); }));
}

// In another PID namespace the agent's number may be another process's.
TEST_F(LifeLocksTest, AnotherFileIsLeftAlone) {
  const UniqueFd other(::memfd_create("other", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(other.get(), sizeof(LifeLocks)), 0);
  for (const std::string& text :
       {"0:/proc/self/fd/" + std::to_string(other.get()), "0:" + std::string("/dev/null"),
        std::string("0"), std::string(""), "127:" + file_, std::string("x:y")}) {
    ::setenv(kLifeLockVariable, text.c_str(), 1);
    TakeLifeLock();
  }
  ::unsetenv(kLifeLockVariable);
  std::uint32_t word = 0;
  ASSERT_EQ(::pread(other.get(), &word, sizeof word, 0), static_cast<ssize_t>(sizeof word));
  EXPECT_EQ(word, 0U);
  EXPECT_EQ(Word(0), 0U);
}

TEST(LifeLocks, OnlyOneThatEndsIsDying) {
  EXPECT_FALSE(IsDying(::getpid()));
  EXPECT_FALSE(IsDying(1));
  EXPECT_FALSE(IsDying(0x7fff'ffff));
  EXPECT_EQ(LifeLockOf("", 0), "");
  EXPECT_EQ(LifeLockOf("/f", 126), "126:/f");
  EXPECT_EQ(LifeLockOf("/f", 127), "");
}

}  // namespace
}  // namespace ddprun
