#include "agent/watch/step_page.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

namespace ddprun {
namespace {

using ::testing::HasSubstr;

// A time of the tests is in microseconds.
StepEntry At(std::uint64_t step, std::uint64_t microseconds, std::uint64_t work = 0) {
  return {step, 1'000 * microseconds, work};
}

// As a worker does it.
void Write(StepPage& page, const StepEntry& entry) {
  StepEntry& place = page.entries[page.count % kStepEntries];
  std::atomic_ref(place.step).store(entry.step);
  std::atomic_ref(place.nanoseconds).store(entry.nanoseconds);
  std::atomic_ref(place.work_microseconds).store(entry.work_microseconds);
  std::atomic_ref(page.count).store(page.count + 1);
}

class StepReaderTest : public ::testing::Test {
 protected:
  // "7 in 30": step and least time; "-": nothing new.
  std::string Read(std::uint64_t most = kAllEntries) {
    const std::optional<WorkerWord> said = reader_.Read(page_, most);
    if (!said) {
      return "-";
    }
    EXPECT_TRUE(said->step);
    return std::to_string(said->step.value_or(0)) +
           (said->work ? " in " + std::to_string(said->work->count()) : "");
  }

  StepPage page_;
  StepReader reader_;
};

TEST_F(StepReaderTest, ANewStepIsOneWord) {
  EXPECT_EQ(reader_.News(page_), std::nullopt);
  EXPECT_EQ(Read(), "-");
  Write(page_, At(1, 1'000));
  EXPECT_EQ(reader_.News(page_), 1U);
  EXPECT_EQ(Read(), "1");
  EXPECT_EQ(reader_.News(page_), std::nullopt);
  EXPECT_EQ(Read(), "-");
  Write(page_, At(2, 1'040));
  Write(page_, At(3, 1'070));
  Write(page_, At(4, 1'110));
  EXPECT_EQ(Read(), "4 in 30") << "the time since what was read before counts too";
  Write(page_, At(14, 1'310));
  EXPECT_EQ(Read(), "14 in 20");
}

TEST_F(StepReaderTest, TheWorkersOwnWordOfItsWorkCountsBeforeTheTimeBetween) {
  Write(page_, At(1, 1'000, 25));
  Write(page_, At(2, 1'100, 24));
  Write(page_, At(3, 1'101, 26));
  EXPECT_EQ(Read(), "3 in 24");
}

// Lightning tells one optimizer step once for each of its batches.
TEST_F(StepReaderTest, OnlyAHigherStepIsOne) {
  Write(page_, At(5, 1'000));
  Write(page_, At(5, 1'100, 1));
  Write(page_, At(4, 1'190, 1));
  EXPECT_EQ(Read(), "5");
  Write(page_, At(5, 1'195));
  EXPECT_EQ(Read(), "-");
  Write(page_, At(6, 1'200));
  EXPECT_EQ(Read(), "6 in 200");
}

// A PHASE that it sent between two steps stays there.
TEST_F(StepReaderTest, ReadsAsFarAsADatagramSays) {
  Write(page_, At(1, 10));
  Write(page_, At(2, 20));
  Write(page_, At(3, 30));
  EXPECT_EQ(Read(2), "2 in 10");
  EXPECT_EQ(Read(1), "-") << "an older datagram";
  EXPECT_EQ(Read(3), "3 in 10");
  EXPECT_EQ(Read(1'000), "-");
}

TEST_F(StepReaderTest, OfMoreThanThereIsRoomForTheLastOnes) {
  for (std::uint64_t step = 1; step <= 10'000; ++step) {
    Write(page_, At(step, 50 * step));
  }
  EXPECT_EQ(Read(9'000), "-") << "these were overwritten";
  EXPECT_EQ(Read(), "10000 in 50");
  EXPECT_EQ(Read(), "-");
}

// The place of the oldest one may be half written, whatever the count is then.
TEST_F(StepReaderTest, TheOneThatMayBeBeingWrittenIsLeftOut) {
  for (std::uint64_t step = 1; step <= kStepEntries; ++step) {
    Write(page_, At(step, 50 * step));
  }
  page_.entries[0].step = 1'000'000;
  EXPECT_EQ(Read(), "128 in 50");
}

// Where a processor's stores change places its numbers come after the count.
TEST_F(StepReaderTest, AnEntryThatArrivesLateIsReadAgain) {
  Write(page_, At(1, 10));
  EXPECT_EQ(Read(), "1");
  page_.count = 2;
  EXPECT_EQ(Read(), "-");
  page_.entries[1] = At(2, 20, 0);
  EXPECT_EQ(reader_.News(page_), 2U);
  EXPECT_EQ(Read(), "2 in 10");
  EXPECT_EQ(reader_.News(page_), std::nullopt);
}

TEST_F(StepReaderTest, ACountMayBeAnything) {
  Write(page_, At(1, 10));
  Write(page_, At(2, 20));
  EXPECT_EQ(Read(), "2 in 10");
  page_.count = std::uint64_t{1} << 63;
  page_.entries[7] = At(9, 30, 0);
  EXPECT_EQ(Read(), "9 in 1");
  page_.count = 1;  // Back.
  page_.entries[0] = At(10, 40, 0);
  EXPECT_EQ(Read(), "10 in 10");
  page_.count = UINT64_MAX;
  page_.entries[126] = {UINT64_MAX, UINT64_MAX, UINT64_MAX};
  EXPECT_EQ(Read(), std::to_string(UINT64_MAX) + " in " + std::to_string(std::uint64_t{1} << 40));
  page_.count = 0;
  EXPECT_EQ(Read(), "-");
}

// A torn page says something, but nothing that was not written, and the last word is the last step.
TEST_F(StepReaderTest, AnEntryThatIsOverwrittenWhileItIsReadIsDropped) {
  constexpr std::uint64_t kSteps = 300'000;
  std::thread worker([this] {
    for (std::uint64_t step = 1; step <= kSteps; ++step) {
      Write(page_, At(step, 1'000 * step, 5'000'000 + step));
    }
  });
  std::uint64_t told = 0;
  while (told < kSteps) {
    if (const auto said = reader_.Read(page_, kAllEntries)) {
      ASSERT_GT(*said->step, told);
      ASSERT_LE(*said->step, kSteps);
      ASSERT_GT(static_cast<std::uint64_t>(said->work->count()), 5'000'000 + told)
          << "of a step that was told before";
      ASSERT_LE(static_cast<std::uint64_t>(said->work->count()), 5'000'000 + *said->step);
      told = *said->step;
    }
  }
  worker.join();
  EXPECT_EQ(reader_.Read(page_, kAllEntries), std::nullopt);
}

class StepPagesTest : public ::testing::Test {
 protected:
  static constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

  struct Worker {
    ForeignFd file;
    StepPage* page = nullptr;  // Its own mapping; the test's end takes it along.
  };
  Worker Make(std::size_t bytes = kStepPageBytes, int seals = kSeals) {
    UniqueFd fd(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    EXPECT_EQ(::ftruncate(fd.get(), static_cast<off_t>(bytes)), 0);
    void* const mapped =
        ::mmap(nullptr, kStepPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
    EXPECT_NE(mapped, MAP_FAILED);
    auto* const page = static_cast<StepPage*>(mapped);
    if (bytes >= kStepPageBytes) {
      page->magic = kStepPageMagic;
    }
    EXPECT_EQ(::fcntl(fd.get(), F_ADD_SEALS, seals), 0);
    return {foreign_.Take(std::move(fd)), page};
  }

  std::string Refused(const ForeignFd& file) {
    const auto taken = pages_.Take(0, file);
    return taken ? "" : taken.error().message;
  }

  ForeignDescriptors foreign_;
  StepPages pages_;
};

TEST_F(StepPagesTest, EachWorkerHasItsOwn) {
  const Worker zero = Make();
  const Worker two = Make();
  EXPECT_TRUE(pages_.empty());
  EXPECT_TRUE(pages_.Take(0, zero.file));
  EXPECT_TRUE(pages_.Take(2, two.file));
  EXPECT_FALSE(pages_.empty());
  EXPECT_EQ(zero.page->reader, kPageIsRead);
  Write(*zero.page, At(7, 10));
  Write(*two.page, At(8, 10));
  EXPECT_EQ(pages_.News(0), 1U);
  EXPECT_EQ(pages_.News(1), std::nullopt);
  EXPECT_EQ(pages_.Read(0, kAllEntries)->step, 7U);
  EXPECT_EQ(pages_.Read(1, kAllEntries), std::nullopt);
  EXPECT_EQ(pages_.Read(2, kAllEntries)->step, 8U);
  pages_.Clear();
  EXPECT_EQ(pages_.News(0), std::nullopt);
}

// Its last step may be the last before a hang.
TEST_F(StepPagesTest, AReplacedPageIsReadToItsEndAndReported) {
  const Worker first = Make();
  const Worker second = Make();
  ASSERT_TRUE(pages_.Take(0, first.file));
  Write(*first.page, At(7, 10));
  Write(*second.page, At(1, 10));
  const auto left = pages_.Take(0, second.file);
  ASSERT_TRUE(left);
  ASSERT_TRUE(*left);
  EXPECT_EQ((*left)->step, 7U);
  EXPECT_EQ(first.page->reader, kPageIsReadNoMore);
  EXPECT_EQ(second.page->reader, kPageIsRead);
  EXPECT_EQ(pages_.Read(0, kAllEntries)->step, 1U);
}

TEST_F(StepPagesTest, ARefusedOneReplacesNothing) {
  const Worker first = Make();
  ASSERT_TRUE(pages_.Take(0, first.file));
  EXPECT_FALSE(pages_.Take(0, Make(kStepPageBytes, F_SEAL_GROW).file));
  EXPECT_EQ(first.page->reader, kPageIsRead);
  Write(*first.page, At(7, 10));
  EXPECT_EQ(pages_.Read(0, kAllEntries)->step, 7U);
}

TEST_F(StepPagesTest, AHoleIsAPageOfZeros) {
  const Worker worker = Make();
  ASSERT_TRUE(pages_.Take(0, worker.file));
  Write(*worker.page, At(7, 10));
  EXPECT_EQ(pages_.Read(0, kAllEntries)->step, 7U);
  ASSERT_EQ(::fallocate(worker.file->get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
                        kStepPageBytes),
            0);
  EXPECT_EQ(pages_.Read(0, kAllEntries), std::nullopt);
  Write(*worker.page, At(8, 20));
  EXPECT_EQ(pages_.Read(0, kAllEntries)->step, 8U);
}

// Anything else could be cut short under the agent's eyes, or make it wait.
TEST_F(StepPagesTest, OnlyAPageThatStaysOne) {
  for (const std::size_t bytes : {std::size_t{0}, kStepPageBytes - 1, kStepPageBytes + 1,
                                  2 * kStepPageBytes, std::size_t{1} << 40}) {
    EXPECT_THAT(Refused(Make(bytes).file),
                HasSubstr("it has " + std::to_string(bytes) + " bytes, not 4096"));
  }
  EXPECT_THAT(Refused(Make(kStepPageBytes, F_SEAL_GROW).file),
              HasSubstr("not a memfd that is sealed"));
  const Worker other = Make();
  other.page->magic = kStepPageMagic + 1;
  EXPECT_THAT(Refused(other.file), HasSubstr("it is not a step page"));
  const Worker own = Make();
  const std::string again = "/proc/self/fd/" + std::to_string(own.file->get());
  EXPECT_THAT(Refused(foreign_.Take(UniqueFd(::open(again.c_str(), O_RDONLY | O_CLOEXEC)))),
              HasSubstr("cannot map"));
  EXPECT_TRUE(pages_.empty());
}

}  // namespace
}  // namespace ddprun
