#include "common/loop.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>

namespace ddprun {
namespace {

using namespace std::chrono_literals;

TEST(Loop, RunsPostedWorkInOrderOnOneThread) {
  Loop loop;
  std::string seen;
  std::thread poster([&] {
    loop.Post([&] { seen += "a"; });
    loop.Post([&] {
      loop.CheckOnLoop();
      seen += "b";
      loop.Stop();
    });
  });
  loop.Run();
  poster.join();
  EXPECT_EQ(seen, "ab");
}

// A replaced moment must not fire even when its expiry was queued already.
TEST(LoopTimer, ArmingReplacesTheEarlierMoment) {
  Loop loop;
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

TEST(Loop, BlockingWorkComesBackToTheLoop) {
  Loop loop;
  std::thread::id worker;
  loop.Post([&] {
    loop.RunBlocking([&] { worker = std::this_thread::get_id(); },
                     [&] {
                       loop.CheckOnLoop();
                       loop.Stop();
                     });
  });
  loop.Run();
  EXPECT_NE(worker, std::this_thread::get_id());
}

}  // namespace
}  // namespace ddprun
