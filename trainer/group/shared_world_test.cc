#include "trainer/group/shared_world.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <functional>
#include <latch>
#include <mutex>
#include <optional>
#include <thread>

#include "common/result_testing.h"
#include "trainer/group/ranks_testing.h"
#include "trainer/group/shared_join.h"

namespace ddprun {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Clock = std::chrono::steady_clock;

constexpr milliseconds kLong = seconds(60);

// One thread per rank, each with a mapping of its own.
void OnEveryRank(std::size_t size, milliseconds timeout,
                 const std::function<void(SharedWorld&)>& work) {
  MapBoard board;
  OnRanks(size, [&](std::size_t rank) {
    const Result<SharedOutcome> joined = JoinShared(board, rank, size, timeout);
    ASSERT_TRUE(joined) << joined.error().message;
    ASSERT_TRUE(joined->world) << joined->why_not;
    work(*joined->world);
  });
}

template <class T>
std::span<std::byte> BytesOf(std::vector<T>& values) {
  return std::as_writable_bytes(std::span(values));
}

float ValueOf(std::size_t rank, std::size_t i) {
  return 1.0F / static_cast<float>(rank * 7 + i % 1000 + 1);
}

// Small, odd, beyond the size that every rank reduces alone, beyond one slot: always as one process
// would add up rank by rank, to the last bit.
TEST(SharedWorld, SumsInRankOrder) {
  for (const std::size_t size : {2, 3, 4}) {
    OnEveryRank(size, kLong, [&](SharedWorld& world) {
      for (const std::size_t count : {1, 7, 4097, 40'000, 600'001}) {
        std::vector<float> data(count);
        for (std::size_t i = 0; i < count; ++i) {
          data[i] = ValueOf(world.rank(), i);
        }
        ASSERT_TRUE(world.AllReduce(Element::kF32, BytesOf(data)));
        for (std::size_t i = 0; i < count; ++i) {
          float sum = ValueOf(0, i);
          for (std::size_t rank = 1; rank < size; ++rank) {
            sum += ValueOf(rank, i);
          }
          ASSERT_EQ(data[i], sum) << size << " ranks, element " << i << " of " << count;
        }
      }
    });
  }
}

// Tensors of odd sizes, in one meeting and in two; the sums that rank 0 adds for other nodes reach
// all.
TEST(SharedWorld, SumsSeveralTensorsAtOnce) {
  for (const std::size_t size : {1, 2, 3, 4}) {
    OnEveryRank(size, kLong, [&](SharedWorld& world) {
      for (const bool across : {false, true}) {
        for (const std::vector<std::size_t>& counts : {std::vector<std::size_t>{1},
                                                       {3, 0, 7},
                                                       {1, 9'000, 4'095, 2},
                                                       {200'000, 11, 62'133}}) {
          std::vector<std::vector<float>> tensors;
          for (const std::size_t count : counts) {
            for (std::vector<float>& tensor = tensors.emplace_back(); tensor.size() < count;) {
              tensor.push_back(ValueOf(world.rank(), tensor.size()));
            }
          }
          const std::vector<std::span<float>> spans(tensors.begin(), tensors.end());
          SharedWorld::Across double_it;
          if (across) {
            double_it = [&world](Element, std::span<std::byte> sum) {
              EXPECT_EQ(world.rank(), 0U);
              Add(Element::kF32, sum.data(), std::vector(sum.begin(), sum.end()).data(),
                  sum.size() / sizeof(float));
              return Result<void>{};
            };
          }
          ASSERT_TRUE(world.Sum(spans, 0.5F, double_it));
          for (const std::vector<float>& tensor : tensors) {
            for (std::size_t i = 0; i < tensor.size(); ++i) {
              float sum = 0.5F * ValueOf(0, i);
              for (std::size_t rank = 1; rank < size; ++rank) {
                sum += 0.5F * ValueOf(rank, i);
              }
              ASSERT_EQ(tensor[i], across ? 2 * sum : sum)
                  << size << " ranks, element " << i << " of " << tensor.size();
            }
          }
        }
      }
    });
  }
}

// Rank 0 continues as the backend's thread does, whose next work waits already. For rank 1 that
// must not look like another collective in the place of the one that failed.
TEST(SharedWorld, AFailureAcrossNodesEndsTheWaitOfAll) {
  OnEveryRank(2, milliseconds(300), [](SharedWorld& world) {
    std::vector<float> numbers(10, 1);
    const std::vector<std::span<float>> spans = {numbers};
    const Result<void> done =
        world.Sum(spans, 1, [](Element, std::span<std::byte>) -> Result<void> {
          return Error{ErrorKind::kUnavailable, "the other node is gone"};
        });
    EXPECT_TRUE(Fails(done, ErrorKind::kUnavailable));
    const Result<void> next = world.Barrier();
    EXPECT_TRUE(Fails(next, ErrorKind::kUnavailable));
    EXPECT_EQ(next.error().message, done.error().message);
  });
}

// Rank 0 waits for another node until rank 1 has given up.
TEST(SharedWorld, ARankThatWaitsForOtherNodesIsNotCalledSilent) {
  std::latch given_up(1);
  OnEveryRank(2, milliseconds(500), [&](SharedWorld& world) {
    std::vector<float> data(3, 1.0F);
    const Result<void> done = world.AllReduce(
        Element::kF32, BytesOf(data), [&](Element, std::span<std::byte>) -> Result<void> {
          given_up.wait();
          return Error{ErrorKind::kUnavailable, "the other node is silent"};
        });
    if (world.rank() == 1) {
      given_up.count_down();
    }
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().message,
              world.rank() == 0
                  ? "the other node is silent"
                  : "received nothing from the other nodes through rank 0 for 500 ms");
  });
}

// Many in a row, without a pause: no slot is filled again while a rank still reads it.
TEST(SharedWorld, FastRanksDoNotOvertakeSlowOnes) {
  OnEveryRank(3, kLong, [](SharedWorld& world) {
    for (int round = 0; round < 3000; ++round) {
      std::vector<double> data(round % 5 == 0 ? 9000 : 3,
                               round + static_cast<double>(world.rank()));
      ASSERT_TRUE(world.AllReduce(Element::kF64, BytesOf(data)));
      ASSERT_EQ(data.front(), 3 * round + 3);
      ASSERT_EQ(data.back(), 3 * round + 3);
    }
  });
}

TEST(SharedWorld, RanksThatDoDifferentThingsAreReported) {
  OnEveryRank(2, kLong, [](SharedWorld& world) {
    std::vector<float> data(world.rank() == 0 ? 4 : 8);
    EXPECT_TRUE(Fails(world.AllReduce(Element::kF32, BytesOf(data)), ErrorKind::kSystem,
                      "the ranks disagree"));
  });
}

// Rank 0 waits for rank 1, which stays away until that has ended; the error it ends with.
Error WaitInVain(milliseconds timeout, const std::function<void(SharedWorld&)>& meanwhile) {
  std::mutex mutex;
  std::condition_variable changed;
  std::optional<Error> error;
  OnEveryRank(2, timeout, [&](SharedWorld& world) {
    if (world.rank() == 1) {
      std::unique_lock lock(mutex);
      EXPECT_TRUE(changed.wait_for(lock, seconds(20), [&] { return error.has_value(); }));
      return;
    }
    std::thread other([&] { meanwhile(world); });
    const Result<void> met = world.Barrier();
    other.join();
    const std::lock_guard lock(mutex);
    error = met ? Error{ErrorKind::kInvalid, "they met"} : met.error();
    changed.notify_all();
  });
  return error.value_or(Error{});
}

TEST(SharedWorld, ASilentPeerCountsAsGoneAfterTheTimeout) {
  const Error error = WaitInVain(milliseconds(50), [](SharedWorld&) {});
  EXPECT_EQ(error.kind, ErrorKind::kUnavailable);
  EXPECT_EQ(error.message, "rank 1 has been silent for 50 ms");
}

TEST(SharedWorld, AbortEndsAWait) {
  const Error error = WaitInVain(kLong, [](SharedWorld& world) { world.Abort(); });
  EXPECT_EQ(error.kind, ErrorKind::kUnavailable);
  EXPECT_EQ(error.message, "the group was asked to stop");
}

// A rank that finishes and leaves does not break the last collective for those still in it.
TEST(SharedWorld, LeavingAfterTheLastOneHurtsNoRank) {
  for (int round = 0; round < 50; ++round) {
    OnEveryRank(2, kLong, [](SharedWorld& world) {
      std::vector<float> data(1000, 1.0F);
      ASSERT_TRUE(world.AllReduce(Element::kF32, BytesOf(data)));
      EXPECT_EQ(data[999], 2.0F);
    });
  }
}

// Processes: rank 1 ends, by a signal that cannot be caught, while the others wait for it; the
// timeout is far beyond the limit of this test.
TEST(SharedWorld, AKilledPeerEndsTheWaitOfAll) {
  MapBoard board;
  std::vector<SharedOutcome> joined(3);
  OnRanks(joined.size(), [&](std::size_t rank) {
    Result<SharedOutcome> outcome = JoinShared(board, rank, 3, seconds(600));
    ASSERT_TRUE(outcome);
    joined[rank] = *std::move(outcome);
  });
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {  // Rank 1 is here now, and never comes.
    joined[0].world.reset();
    joined[2].world.reset();
    for (;;) {
      pause();
    }
  }
  joined[1].world.reset();  // The child alone holds its lock.
  std::vector<std::thread> waits;
  for (const std::size_t rank : {0, 2}) {
    waits.emplace_back([&, rank] {
      const Result<void> met = joined[rank].world->Barrier();
      EXPECT_TRUE(Fails(met, ErrorKind::kUnavailable));
      EXPECT_EQ(met.error().message, "the process of rank 1 has ended");
    });
  }
  kill(child, SIGKILL);
  for (std::thread& wait : waits) {
    wait.join();
  }
  EXPECT_EQ(waitpid(child, nullptr, 0), child);
}

// As from another machine, where that process does not exist or has other descriptors.
TEST(SharedJoin, ARankThatDoesNotSeeTheMemoryMakesAllOfThemDoWithout) {
  for (const bool exists : {true, false}) {
    MapBoard board;
    board.change_ = [exists](const std::string& key, const std::string& text) {
      const std::string another = exists ? std::to_string(getppid()) : "0";
      return key == "shm/offer" ? another + text.substr(text.find(' ')) : text;
    };
    OnRanks(3, [&](std::size_t rank) {
      const Result<SharedOutcome> joined = JoinShared(board, rank, 3, kLong);
      ASSERT_TRUE(joined);
      EXPECT_FALSE(joined->world);
      EXPECT_NE(joined->why_not.find("rank 1 does not see rank 0's memory"), std::string::npos)
          << joined->why_not;
    });
  }
}

TEST(SharedJoin, AMemoryOfAnotherNameIsNotRankZeros) {
  MapBoard board;
  board.change_ = [](const std::string& key, const std::string& text) {
    const std::size_t name = text.find("ddprun-shm-");
    return key == "shm/offer" ? text.substr(0, name) + "another" + text.substr(name) : text;
  };
  OnRanks(2, [&](std::size_t rank) {
    const Result<SharedOutcome> joined = JoinShared(board, rank, 2, kLong);
    ASSERT_TRUE(joined);
    EXPECT_FALSE(joined->world);
    EXPECT_NE(joined->why_not.find("another process is there"), std::string::npos)
        << joined->why_not;
  });
}

TEST(SharedJoin, AnOfferThatIsNoneIsAnError) {
  MapBoard board;
  board.change_ = [](const std::string& key, const std::string& text) {
    return key == "shm/offer" ? text.substr(0, text.rfind(' ')) : text;
  };
  EXPECT_TRUE(board.Set("shm/offer", "1 ddprun-shm-0 3"));
  EXPECT_TRUE(Fails(JoinShared(board, 1, 2, kLong), ErrorKind::kInvalid));
}

}  // namespace
}  // namespace ddprun
