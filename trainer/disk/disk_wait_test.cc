#include "trainer/disk/disk_wait.h"

#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <new>

namespace ddprun {
namespace {

using std::chrono::seconds;
using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;

DiskWait::Time At(int second) {
  return DiskWait::Time{} + seconds(second);
}

TEST(DiskWork, TellsWhatCameOfItAndWaitsNoLongerThanAsked) {
  auto answer = std::make_shared<std::promise<void>>();
  DiskWork work([disk = std::make_shared<std::shared_future<void>>(answer->get_future())] {
    disk->wait();
    return Result<void>(Invalid("no room", "disk"));
  });
  EXPECT_FALSE(work.Wait(1ms));
  answer->set_value();
  const std::optional<Result<void>> outcome = work.Wait(60s);
  ASSERT_TRUE(outcome);
  EXPECT_FALSE(*outcome);
}

TEST(DiskWork, MemoryThatCannotBeHadIsAnError) {
  DiskWork work([]() -> Result<void> { throw std::bad_alloc(); });
  const std::optional<Result<void>> outcome = work.Wait(60s);
  ASSERT_TRUE(outcome);
  ASSERT_FALSE(*outcome);
  EXPECT_EQ(outcome->error().message, "out of memory");
}

TEST(OwnTime, StandsWhileItsProcessDoes) {
  OwnTime time(At(0));
  EXPECT_EQ(time.Look(At(1)), At(1));
  EXPECT_EQ(time.Look(At(3601)), At(2));
  EXPECT_EQ(time.Look(At(3602)), At(3));
}

TEST(DiskWait, HasAWordSoonAndThenEverMoreRarely) {
  DiskWait wait(At(0), 0);
  std::vector<int> words;
  for (int second = 0; second <= 250; ++second) {
    if (wait.Look(At(second), false).word) {
      words.push_back(second);
    }
  }
  EXPECT_EQ(words, (std::vector<int>{2, 4, 8, 16, 32, 64, 124, 184, 244}));
  EXPECT_EQ(wait.Lasted(At(250)), 250s);
}

TEST(DiskWait, WithoutAStopItHasNoEnd) {
  DiskWait wait(At(0), 0);
  EXPECT_FALSE(wait.Look(At(1'000'000), false).give_up);
}

// Otherwise one that comes late in a long wait would end it at once.
TEST(DiskWait, PatienceBeginsWithTheStop) {
  DiskWait wait(At(0), 0);
  EXPECT_FALSE(wait.Look(At(100), true).give_up);
  EXPECT_FALSE(wait.Look(At(119), true).give_up);
  EXPECT_TRUE(wait.Look(At(120), true).give_up);
}

TEST(DiskWait, ALargeStateIsGivenItsTime) {
  DiskWait wait(At(0), 100 * DiskWait::kBytesPerSecond);
  EXPECT_FALSE(wait.Look(At(0), true).give_up);
  EXPECT_FALSE(wait.Look(At(119), true).give_up);
  EXPECT_TRUE(wait.Look(At(120), true).give_up);
}

}  // namespace
}  // namespace ddprun
