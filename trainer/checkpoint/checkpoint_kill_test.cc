// A process that saves in a loop on the real file system, killed by SIGKILL at random instants,
// over and over in the same directory. DDPRUN_KILLS=1000 kills it that often instead of 60 times.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <random>

#include "tests/support/scratch_directory.h"
#include "trainer/checkpoint/checkpoint_fixtures.h"

namespace ddprun {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using std::chrono_literals::operator""s;

constexpr std::size_t kValues = 100'000;
constexpr std::uint64_t kEnough = 1'000'000;

// Large enough for writing it to be a target.
Snapshot LargeSnapshotAt(std::uint64_t step) {
  Snapshot snapshot = SnapshotAt(step);
  snapshot.model.push_back(
      Floats("large", std::vector<float>(kValues, static_cast<float>(step % 1'000'000))));
  return snapshot;
}

// What the victim tells; it outlives the victim.
struct Told {
  std::atomic<bool> claimed;
  std::atomic<std::uint64_t> acknowledged;
};

class CheckpointKill : public testing::Test {
 protected:
  CheckpointKill()
      : told_(new (::mmap(nullptr, sizeof(Told), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                          -1, 0)) Told) {}
  ~CheckpointKill() override { ::munmap(told_, sizeof(Told)); }

  // Saves step after step until it is killed.
  [[noreturn]] void BeVictim(std::uint64_t generation) {
    CheckpointStore store(RealFileSystem(), ConfigFor(directory_));
    if (!store.Claim(World("a", generation))) {
      ::_exit(3);
    }
    const Result<LoadOutcome> outcome = store.Load();
    if (!outcome) {
      ::_exit(4);
    }
    std::uint64_t step = outcome->checkpoint ? outcome->checkpoint->snapshot.state.step : 0;
    told_->claimed = true;
    while (step < kEnough) {
      if (!store.Save(LargeSnapshotAt(++step))) {
        ::_exit(5);
      }
      told_->acknowledged = step;
    }
    ::_exit(6);
  }

  // Counted from its claim; or, since no instant is late enough on a slow disk, from its first
  // save.
  void KillAfter(std::uint64_t generation, std::chrono::microseconds instant, bool behind_a_save) {
    told_->claimed = false;
    const std::uint64_t before = told_->acknowledged;
    const pid_t victim = ::fork();
    ASSERT_GE(victim, 0);
    if (victim == 0) {
      BeVictim(generation);
    }
    const Clock::time_point give_up = Clock::now() + 60s;
    const auto begins = [&] {
      return told_->claimed && (!behind_a_save || told_->acknowledged > before);
    };
    while (!begins() && Clock::now() < give_up) {
      ::sched_yield();
    }
    const Clock::time_point due = Clock::now() + instant;
    while (Clock::now() < due) {
      ::sched_yield();
    }
    ::kill(victim, SIGKILL);
    int status = 0;
    ASSERT_EQ(::waitpid(victim, &status, 0), victim);
    ASSERT_TRUE(WIFSIGNALED(status)) << "it ended by itself, with " << WEXITSTATUS(status);
  }

  // The step that the next one would go on from, whole and undamaged.
  void FindNewest(std::uint64_t generation, std::uint64_t& found) {
    CheckpointStore store(RealFileSystem(), ConfigFor(directory_));
    const auto claimed = store.Claim(World("a", generation));
    ASSERT_TRUE(claimed) << claimed.error().message;
    EXPECT_THAT(*claimed, testing::IsEmpty());
    const Result<LoadOutcome> outcome = store.Load();
    ASSERT_TRUE(outcome) << outcome.error().message;
    found = 0;
    if (outcome->checkpoint) {
      EXPECT_THAT(outcome->warnings, testing::IsEmpty());
      const Snapshot& snapshot = outcome->checkpoint->snapshot;
      found = snapshot.state.step;
      EXPECT_EQ(snapshot.model, LargeSnapshotAt(found).model);
      EXPECT_EQ(snapshot.optimizer, LargeSnapshotAt(found).optimizer);
    }
  }

  bool HasHalfWritten() const {
    for (const auto& entry : fs::directory_iterator(directory_)) {
      if (entry.path().filename().native().starts_with(".tmp-")) {
        return true;
      }
    }
    return false;
  }

  ScratchDirectory scratch_;
  const std::string directory_ = scratch_.path();
  Told* const told_;
};

TEST_F(CheckpointKill, NeverAnOlderResumeThanTheLastAcknowledgedSaveNorABrokenFile) {
  const char* const asked = std::getenv("DDPRUN_KILLS");
  const int kills = asked == nullptr ? 60 : std::atoi(asked);
  std::mt19937 random(7);
  // Saves take some milliseconds: within the first one or in a later one.
  std::uniform_int_distribution<int> instant(0, 40'000);
  int half_written = 0;
  int unacknowledged = 0;  // Committed, but killed before it could say so.
  for (int i = 0; i < kills; ++i) {
    const int microseconds = instant(random);
    SCOPED_TRACE("kill " + std::to_string(i) + " after " + std::to_string(microseconds) + " us");
    const auto generation = static_cast<std::uint64_t>(2 * i + 1);
    KillAfter(generation, std::chrono::microseconds(microseconds), i % 2 == 1);
    ASSERT_FALSE(HasFatalFailure());
    half_written += HasHalfWritten() ? 1 : 0;
    std::uint64_t found = 0;
    FindNewest(generation + 1, found);
    ASSERT_FALSE(HasFailure());
    const std::uint64_t acknowledged = told_->acknowledged;
    ASSERT_GE(found, acknowledged);
    ASSERT_LE(found, acknowledged + 1);
    unacknowledged += found > acknowledged ? 1 : 0;
    told_->acknowledged = found;
    ASSERT_FALSE(HasHalfWritten()) << "the next claim removes it";
  }
  std::printf(
      "%d kills, %d while files were written, %d between commit and acknowledgement; "
      "%llu checkpoints\n",
      kills, half_written, unacknowledged, static_cast<unsigned long long>(told_->acknowledged));
  EXPECT_GT(half_written, kills / 20);
  EXPECT_GT(told_->acknowledged, 0u);
}

}  // namespace
}  // namespace ddprun
