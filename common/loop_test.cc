#include "common/asio_loop.h"

#include <gtest/gtest.h>
#include <time.h>

#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "common/lifetime.h"

namespace ddprun {
namespace {

using namespace std::chrono_literals;

// Of a holder that wakes from the machine's sleep others think that its lease is over; so must it.
TEST(Loop, TimePassesWhileTheMachineSleeps) {
  const auto boot = [] {
    timespec time{};
    EXPECT_EQ(::clock_gettime(CLOCK_BOOTTIME, &time), 0);
    return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
  };
  const AsioLoop loop;
  const auto before = boot();
  const auto now = loop.Now().time_since_epoch();
  EXPECT_GE(now + 1us, before);
  EXPECT_LE(now, boot());
}

// A replaced moment must not fire even when its expiry was queued already.
TEST(LoopTimer, ArmingReplacesTheEarlierMoment) {
  AsioLoop loop;
  LoopTimer timer(loop);
  std::string seen;
  loop.Post([&] {
    const Time start = loop.Now();
    timer.ArmAt(start, [&] { seen += "never"; });
    while (loop.Now() <= start + 1ms) {
    }
    timer.ArmAt(start + 2ms, [&, start] {
      EXPECT_GE(loop.Now(), start + 2ms);
      seen += "once";
      loop.Stop();
    });
  });
  loop.Run();
  EXPECT_EQ(seen, "once");
}

// A disk that hangs holds up neither the loop, nor other work, nor the loop's end.
TEST(Loop, ATaskThatHangsIsLeftBehind) {
  std::promise<void> disk;
  const std::shared_future<void> answers = disk.get_future().share();
  const auto gone = std::make_shared<std::promise<void>>();  // With the thread that tells of it.
  {
    AsioLoop loop;
    std::string seen;
    loop.Post([&] {
      loop.RunBounded(
          1ms, [answers, gone] { answers.wait(), gone->set_value(); },
          [&](bool in_time) {
            seen += in_time ? "hung finished;" : "hung left;";
            loop.RunBlocking([] {},
                             [&] {
                               seen += "pool;";
                               loop.RunBounded(
                                   1min, [] {},
                                   [&](bool other) {
                                     seen += other ? "other" : "no other";
                                     loop.Stop();
                                   });
                             });
          });
    });
    loop.Run();
    EXPECT_EQ(seen, "hung left;pool;other");
  }
  disk.set_value();
  gone->get_future().wait();
}

TEST(Loop, SoManyMayHangAndNoMore) {
  std::promise<void> disk;
  const std::shared_future<void> answers = disk.get_future().share();
  AsioLoop loop;
  std::size_t left = 0;
  std::size_t finished = 0;
  const auto count = [&](bool in_time) {
    ++(in_time ? finished : left);
    if (left == 3) {
      disk.set_value();
      left = 0;
    }
    if (finished == Loop::kMostStuck) {
      loop.Stop();
    }
  };
  loop.Post([&] {
    for (std::size_t i = 0; i < Loop::kMostStuck + 3; ++i) {
      loop.RunBounded(
          10min, [answers] { answers.wait(); }, count);
    }
  });
  loop.Run();
  EXPECT_EQ(finished, Loop::kMostStuck);
}

TEST(Loop, WaitsForWorkNoLongerThanAsked) {
  auto disk = std::make_shared<std::promise<void>>();
  EXPECT_FALSE(FinishesWithin(1ms, [disk] { disk->get_future().wait(); }));
  EXPECT_TRUE(FinishesWithin(1min, [disk] { disk->set_value(); }));
}

// After all that was asked of the disk before.
TEST(Loop, TheLastWorkOnTheDiskIsWaitedFor) {
  AsioLoop loop;
  const auto seen = std::make_shared<std::string>();
  loop.Post([&] {
    loop.RunOnDisk([seen] { *seen += "a"; }, [] {});
    loop.Stop();
  });
  loop.Run();
  EXPECT_TRUE(loop.FinishOnDisk(1min, [seen] { *seen += "b"; }));
  EXPECT_EQ(*seen, "ab");
}

TEST(Loop, TheLastWorkOnADiskThatHangsIsWaitedForNoLongerThanAsked) {
  const auto answers = std::make_shared<std::promise<void>>();
  AsioLoop loop;
  loop.RunOnDisk([answers] { answers->get_future().wait(); }, [] {});
  EXPECT_FALSE(loop.FinishOnDisk(1ms, [] {}));
  answers->set_value();
}

// Neither the search for another server's name, nor the end.
TEST(Loop, ADiskThatHangsHoldsUpNoOtherTask) {
  AsioLoop loop;
  loop.Post([&] {
    loop.RunOnDisk([] { std::promise<void>().get_future().wait(); },
                   [] { ADD_FAILURE() << "it hangs"; });
    loop.RunBlocking([] {}, [&] { loop.Stop(); });
  });
  loop.Run();
}

TEST(Lifetime, KeepsCallsBackFromAnObjectThatHasEnded) {
  int sum = 0;
  auto life = std::make_optional<Lifetime>();
  const auto early = life->Guard([&](int more) { sum += more; });
  early(1);
  life->Renew();
  early(10);
  const auto later = life->Guard([&] { sum += 100; });
  later();
  life.reset();
  later();
  EXPECT_EQ(sum, 101);
}

}  // namespace
}  // namespace ddprun
