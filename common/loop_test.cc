#include "common/loop.h"

#include <gtest/gtest.h>

#include <future>
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

// Neither the search for another server's name, nor the end.
TEST(Loop, ADiskThatHangsHoldsUpNobody) {
  Loop loop;
  loop.Post([&] {
    loop.RunOnDisk([] { std::promise<void>().get_future().wait(); },
                   [] { ADD_FAILURE() << "it hangs"; });
    loop.RunBlocking([] {}, [&] { loop.Stop(); });
  });
  loop.Run();
}

}  // namespace
}  // namespace ddprun
