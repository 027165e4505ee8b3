// When sources are asked, and the reports on those that hang: time and threads are the test's.
#include "agent/host/host_watch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <utility>

#include "agent/fake_machine_testing.h"
#include "tests/support/instant_loop.h"

namespace ddprun {
namespace {

using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;

// A thread begins and ends when the test says so.
class ToldLoop final : public InstantLoop {
 public:
  struct OnThread {
    std::function<void()> work;
    std::function<void(bool)> done;
  };
  std::deque<OnThread> threads;

  void Pass(Duration time) { GoTo(Now() + time); }
  OnThread Oldest() {
    OnThread oldest = std::move(threads.front());
    threads.pop_front();
    return oldest;
  }
  void Finish() {
    const OnThread oldest = Oldest();
    oldest.work();
    oldest.done(true);
  }

  void RunBounded(Duration, std::function<void()> work, std::function<void(bool)> done) override {
    threads.push_back({std::move(work), std::move(done)});
  }
};

struct Watched : testing::Test {
  FakeMachine machine;
  ToldLoop loop;
  HostWatch watch{loop, {machine.roots(), {}}, [](const HostView&) {}};

  Watched() {
    watch.Start();
    loop.Pass(200ms);
  }
  std::string Gpus() const {
    const auto found = std::ranges::find(watch.view().facts, "gpus", &HostFact::name);
    return found == watch.view().facts.end() ? "" : found->value;
  }
};

TEST_F(Watched, ASourceThatStillHangsIsNotAskedAgainAndIsSilentForAsLong) {
  ASSERT_EQ(loop.threads.size(), 1u);
  ToldLoop::OnThread hangs = loop.Oldest();
  loop.Pass(3s);
  hangs.done(false);
  EXPECT_EQ(Gpus(), "their driver has not answered for 3.0 s");
  loop.Pass(7s);
  EXPECT_EQ(loop.threads.size(), 0u);
  EXPECT_EQ(Gpus(), "their driver has not answered for 10.0 s");
  hangs.work();  // It comes back at last.
  hangs = {};
  loop.Pass(10s);
  ASSERT_EQ(loop.threads.size(), 1u);
  loop.Finish();
  EXPECT_EQ(Gpus(), "");
}

TEST_F(Watched, ASourceThatHadNoThreadIsAskedAgain) {
  ASSERT_EQ(loop.threads.size(), 1u);
  const auto done = loop.Oldest().done;  // Its work is dropped.
  done(false);
  loop.Pass(10s);
  ASSERT_EQ(loop.threads.size(), 1u);
  loop.Finish();
  EXPECT_EQ(Gpus(), "");
}

}  // namespace
}  // namespace ddprun
