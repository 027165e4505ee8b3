#include "launcher/end/launch_end.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <utility>
#include <vector>

#include "common/asio_loop.h"

namespace ddprun {
namespace {

using Done = std::function<void()>;

struct LaunchEnds : testing::Test {
  LaunchEnd::Steps Steps() {
    return {[this] { return printed; },
            [this](Done done) { Note("report", reported, std::move(done)); },
            [this](Done done) {
              if (serves) {
                Note("serve", unneeded, std::move(done));
              }
              return serves;
            },
            [this] { return said; }, [this] { steps.push_back("over"); }};
  }
  void Note(const char* step, Done& kept, Done done) {
    steps.push_back(step);
    kept = std::move(done);
  }
  using Names = std::vector<std::string>;

  AsioLoop loop;
  std::string printed;  // Unread.
  std::string said;
  bool serves = true;
  Names steps;
  Done reported;
  Done unneeded;
  LaunchEnd end{loop, Steps()};
};

TEST_F(LaunchEnds, OneStepAfterTheOther) {
  EXPECT_FALSE(end.begun());
  end.Begin(1, Duration{0});
  EXPECT_TRUE(end.begun());
  EXPECT_EQ(steps, (Names{"report"}));
  reported();
  EXPECT_EQ(steps, (Names{"report", "serve"}));
  unneeded();
  EXPECT_EQ(steps, (Names{"report", "serve", "over"}));
}

// The whole report is given, and the server that would stay for others goes all the same.
TEST_F(LaunchEnds, ASignalDuringTheReportIsKept) {
  end.Begin(1, Duration{0});
  end.OnSignal(SIGTERM);
  EXPECT_EQ(steps, (Names{"report"}));
  reported();
  EXPECT_EQ(steps, (Names{"report", "serve", "over"}));
  unneeded();  // Too late.
  EXPECT_EQ(steps.size(), 3u);
}

// It ended no wait, so the report has its time to be read; the next signal ends that.
TEST_F(LaunchEnds, AKeptSignalDoesNotDropTheReport) {
  serves = false;
  said = "standard error";
  end.Begin(1, Duration{0});
  end.OnSignal(SIGINT);
  reported();
  EXPECT_EQ(steps, (Names{"report"}));
  end.OnSignal(SIGINT);
  EXPECT_EQ(steps, (Names{"report", "over"}));
}

// A takeover may be settled in any of these moments.
TEST_F(LaunchEnds, AServersPartThatComesOrGoesIsOfMatterOnlyWhileOneServes) {
  printed = "standard output";
  end.OnServerCame();
  end.OnServerWent();
  end.Begin(1, std::chrono::hours(1));
  end.OnServerCame();
  end.OnServerWent();
  end.OnSignal(SIGINT);
  end.OnServerCame();
  end.OnServerWent();
  EXPECT_EQ(steps, (Names{"report"}));
  reported();
  EXPECT_EQ(steps, (Names{"report", "serve"}));
  end.OnServerCame();  // With a new one.
  EXPECT_EQ(steps, (Names{"report", "serve", "serve"}));
  end.OnServerWent();
  EXPECT_EQ(steps, (Names{"report", "serve", "serve", "over"}));
  end.OnServerCame();
  end.OnServerWent();
  EXPECT_EQ(steps.size(), 4u);
}

}  // namespace
}  // namespace ddprun
