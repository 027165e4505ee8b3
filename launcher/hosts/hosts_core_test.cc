#include "launcher/hosts/hosts_core.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

namespace ddprun {
namespace {

using std::chrono_literals::operator""s;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;
using Hosts = std::vector<std::size_t>;

class HostsStory {
 public:
  HostsStory(std::size_t hosts, std::uint32_t min_nodes) {
    for (std::size_t i = 1; i <= hosts; ++i) {
      config.names.push_back("n" + std::to_string(i));
    }
    config.min_nodes = min_nodes;
    config.finds_first = config.first_ends_run = true;
    last = Feed(LaunchBegins{});
  }

  HostsEffects Feed(const HostsEvent& event) {
    last = Step(state, config, event, now);
    for (const auto& [level, text] : last.lines) {
      said += text + "\n";
    }
    return last;
  }
  HostsEffects After(Duration time) {
    now += time;
    return Feed(HostsTick{});
  }
  void AllGreet() {
    for (std::size_t i = 0; i < config.names.size(); ++i) {
      Feed(HostGreets{i});
    }
  }

  HostsConfig config;
  HostsState state;
  HostsEffects last;
  std::string said;
  Time now = Time(1'000s);
};

TEST(HostsCore, TheCodeOfTheFirstHostIsTheRuns) {
  HostsStory story(2, 2);
  EXPECT_THAT(story.last.started, ElementsAre(0, 1));
  EXPECT_THAT(story.Feed(HostGreets{1}).ordered, IsEmpty());  // Where do the nodes meet?
  EXPECT_THAT(story.Feed(HostGreets{0}).ordered, ElementsAre(0, 1));
  EXPECT_FALSE(story.Feed(HostEnds{0, 3}).exit_code);
  EXPECT_EQ(story.Feed(HostEnds{1, 0}).exit_code, 3);
  EXPECT_EQ(NextWake(story.state), std::nullopt);
}

TEST(HostsCore, SixtyFourAtOnce) {
  HostsStory story(200, 200);
  EXPECT_EQ(story.last.started.size(), 64u);
  EXPECT_THAT(story.Feed(HostGreets{7}).started, ElementsAre(64));
}

TEST(HostsCore, AHostMayAskForFilesAndHasTimeForThem) {
  HostsStory story(2, 1);
  story.config.copies = {"ddprun (25 MB)"};
  EXPECT_THAT(story.Feed(HostLacks{1, 0}).sent, ElementsAre(Pair(1, 0)));
  EXPECT_EQ(story.said, "host n2 lacks ddprun (25 MB): sending it\n");
  EXPECT_THAT(story.Feed(HostLacks{1, 1}).sent, IsEmpty());  // There is no such file.
  EXPECT_THAT(story.After(HostsConfig::kGreetingLimit).dropped, ElementsAre(0));
  story.Feed(HostLacks{0, 0});
  EXPECT_THAT(story.After(HostsConfig::kCopyLimit).dropped, ElementsAre(1));
  EXPECT_THAT(story.said,
              HasSubstr("cannot reach host n2: no ddprun has answered there within 10 min"));
}

TEST(HostsCore, AFixedRunEndsWithTheFirstHostThatCannotBeReached) {
  HostsStory story(3, 3);
  story.Feed(HostGreets{0});
  const HostsEffects effects = story.Feed(HostGone{1, "ssh: no route"});
  EXPECT_EQ(effects.exit_code, 69);
  EXPECT_THAT(effects.dropped, ElementsAre(0, 2));
  EXPECT_THAT(story.said, HasSubstr("cannot reach host n2: ssh: no route [host-unreachable]\n"
                                    "the run needs 3 of 3 hosts, and 2 can be reached"));
}

TEST(HostsCore, AnElasticRunGoesOnAndTriesAgain) {
  HostsStory story(3, 2);
  EXPECT_THAT(story.Feed(HostGone{1, "down"}).dropped, IsEmpty());
  story.Feed(HostGreets{0});
  story.Feed(HostGreets{2});
  EXPECT_THAT(story.After(1s).started, IsEmpty());
  EXPECT_THAT(story.After(1s).started, ElementsAre(1));
  story.Feed(HostGone{1, "down"});
  EXPECT_THAT(story.After(3s).started, IsEmpty());  // Twice as long.
  EXPECT_THAT(story.After(1s).started, ElementsAre(1));
  EXPECT_THAT(story.Feed(HostGreets{1}).ordered, ElementsAre(1));
  EXPECT_THAT(story.said, HasSubstr("host n2 answers again"));
}

// The rendezvous must be somewhere; where the first host is down it is on the next one.
TEST(HostsCore, TheFirstHostThatAnswersIsTheFirst) {
  HostsStory story(3, 1);
  story.Feed(HostGreets{1});
  EXPECT_THAT(story.last.ordered, IsEmpty());
  EXPECT_THAT(story.Feed(HostGone{0, "down"}).ordered, ElementsAre(1));
  EXPECT_EQ(story.state.first, 1u);
  story.After(2s);
  EXPECT_THAT(story.Feed(HostGreets{0}).ordered, ElementsAre(0));
  EXPECT_EQ(story.state.first, 1u);  // Its nodes have its name already.
}

TEST(HostsCore, ALostHostIsTriedAgainInAFixedRunToo) {
  HostsStory story(2, 2);
  story.AllGreet();
  story.Feed(HostGone{1, "timeout"});
  EXPECT_THAT(story.said, HasSubstr("lost the connection to host n2: timeout"));
  EXPECT_THAT(story.After(2s).started, ElementsAre(1));
  EXPECT_FALSE(story.last.exit_code);
}

TEST(HostsCore, AllLostIsTheEnd) {
  HostsStory story(2, 1);
  story.AllGreet();
  story.Feed(HostGone{0, "x"});
  EXPECT_EQ(story.Feed(HostGone{1, "x"}).exit_code, 69);
}

// As a shell does in place of ddprun.
// A home on a disk that hangs: the first host of all may be the one.
TEST(HostsCore, WhoIsWaitedForIsSaidOnce) {
  HostsStory story(3, 2);
  story.Feed(HostGreets{1});
  EXPECT_EQ(NextWake(story.state), story.now + HostsConfig::kSlowGreeting);
  story.After(HostsConfig::kSlowGreeting);
  EXPECT_EQ(story.said, "waiting for an answer of n1 n3, up to 1 min 00 s\n");
  story.After(1s);
  EXPECT_EQ(story.said, "waiting for an answer of n1 n3, up to 1 min 00 s\n");
}

TEST(HostsCore, AHostThatNeverGreetsIsGivenUp) {
  HostsStory story(1, 1);
  story.After(HostsConfig::kSlowGreeting);
  EXPECT_EQ(NextWake(story.state), story.now + 55s);
  EXPECT_EQ(story.After(55s).exit_code, 69);
  EXPECT_THAT(story.last.dropped, ElementsAre(0));
  EXPECT_THAT(story.said, HasSubstr("no ddprun has answered there within 1 min 00 s"));
}

TEST(HostsCore, ASignalGoesToWhatRunsAndEndsTheRest) {
  HostsStory story(70, 1);
  story.Feed(HostGreets{0});
  story.Feed(HostGreets{1});
  EXPECT_THAT(story.Feed(LaunchSignal{SIGUSR1, false}).signals,
              ElementsAre(Pair(0, SIGUSR1), Pair(1, SIGUSR1)));
  EXPECT_THAT(story.last.dropped, IsEmpty());
  story.Feed(LaunchSignal{SIGTERM, true});
  EXPECT_THAT(story.last.signals, ElementsAre(Pair(0, SIGTERM), Pair(1, SIGTERM)));
  EXPECT_EQ(story.last.dropped.size(), 64u);
  EXPECT_THAT(story.last.started, IsEmpty());
  story.Feed(HostEnds{1, 143});
  EXPECT_EQ(story.Feed(HostEnds{0, 143}).exit_code, 143);
}

TEST(HostsCore, ASignalBeforeAnyHostRuns) {
  HostsStory story(2, 2);
  EXPECT_EQ(story.Feed(LaunchSignal{SIGINT, true}).exit_code, 130);
  EXPECT_THAT(story.last.dropped, ElementsAre(0, 1));
}

TEST(HostsCore, ALostHostIsNotTriedAgainAfterASignal) {
  HostsStory story(2, 1);
  story.AllGreet();
  story.Feed(LaunchSignal{SIGTERM, true});
  story.Feed(HostGone{1, "x"});
  EXPECT_THAT(story.After(30s).started, IsEmpty());
  EXPECT_EQ(story.Feed(HostEnds{0, 143}).exit_code, 143);
}

// A node that came too late would look for a rendezvous that is gone.
TEST(HostsCore, WhoDoesNotFollowTheFirstHostsEndIsStopped) {
  HostsStory story(3, 1);
  story.AllGreet();
  story.Feed(HostGone{2, "x"});
  story.Feed(HostEnds{0, 0});
  EXPECT_THAT(story.After(4s).started, IsEmpty());
  EXPECT_THAT(story.last.signals, IsEmpty());
  story.now += 1s;
  EXPECT_THAT(story.Feed(HostsTick{.output_waits = true}).signals, IsEmpty());
  EXPECT_THAT(story.After(5s).signals, ElementsAre(Pair(1, SIGTERM)));
  EXPECT_FALSE(story.last.exit_code);
  EXPECT_THAT(story.After(5s).dropped, ElementsAre(1));
  EXPECT_EQ(story.last.exit_code, 0);
}

// Over a slow connection; one that is cut off from the run may print for ever.
TEST(HostsCore, AHostMayPrintWhatItHasAtTheRunsEnd) {
  HostsStory story(2, 2);
  story.AllGreet();
  story.Feed(HostEnds{0, 0, true});
  for (Duration passed{0}; passed < HostsConfig::kOutputLimit; passed += 5s) {
    story.now += 5s;
    const HostsTick tick{.output_comes = true};
    EXPECT_EQ(story.Feed(tick).signals.empty(), passed + 5s < HostsConfig::kOutputLimit);
  }
  HostsStory silent(2, 2);
  silent.AllGreet();
  silent.Feed(HostEnds{0, 0, true});
  EXPECT_THAT(silent.After(5s).signals, ElementsAre(Pair(1, SIGTERM)));
}

// The others would wait for it until their join timeout.
TEST(HostsCore, ANodeThatCannotBeginEndsAFixedRun) {
  HostsStory story(2, 2);
  story.AllGreet();
  story.Feed(HostEnds{1, 2});
  EXPECT_THAT(story.After(5s).signals, ElementsAre(Pair(0, SIGTERM)));
  EXPECT_EQ(story.Feed(HostEnds{0, 143}).exit_code, 2);
  HostsStory elastic(2, 1);
  elastic.AllGreet();
  elastic.Feed(HostEnds{1, 137});
  EXPECT_THAT(elastic.After(50s).signals, IsEmpty());
  EXPECT_EQ(elastic.Feed(HostEnds{0, 0}).exit_code, 0);
}

TEST(HostsCore, AHostThatDoesNotEndAfterASignalIsDropped) {
  for (const bool again : {false, true}) {
    HostsStory story(2, 2);
    story.AllGreet();
    story.Feed(LaunchSignal{SIGTERM, true});
    Duration limit = 40s;
    if (again) {
      story.After(1s);
      story.Feed(LaunchSignal{SIGINT, true});
      limit = 5s;
    }
    EXPECT_THAT(story.After(limit - 1s).dropped, IsEmpty());
    story.now += 1s;
    EXPECT_THAT(story.Feed(HostsTick{.output_waits = true}).dropped, ElementsAre(0, 1));
    EXPECT_EQ(story.last.exit_code, again ? 130 : 143);
  }
}

// The exit codes of the hosts are behind it.
TEST(HostsCore, OutputWhoseReaderStandsStillIsLeftOutAfterASignal) {
  HostsStory story(1, 1);
  story.AllGreet();
  EXPECT_FALSE(story.Feed(HostsTick{.output_stands = true}).leaves_output);
  story.Feed(LaunchSignal{SIGINT, true});
  for (const bool stands : {false, true}) {
    EXPECT_EQ(NextWake(story.state), story.now + HostsConfig::kReaderLimit);
    story.now += HostsConfig::kReaderLimit;
    EXPECT_EQ(story.Feed(HostsTick{.output_stands = stands}).leaves_output, stands);
  }
  EXPECT_EQ(story.Feed(HostEnds{0, 130}).exit_code, 130);
  EXPECT_EQ(NextWake(story.state), std::nullopt);
}

// Where another node can take the rendezvous over, the first host may be drained.
TEST(HostsCore, WhereOthersMayServeTheLastOneEndsTheRun) {
  HostsStory story(2, 1);
  story.config.first_ends_run = false;
  story.AllGreet();
  story.Feed(HostEnds{0, 0});
  EXPECT_THAT(story.After(100s).signals, IsEmpty());
  EXPECT_EQ(story.Feed(HostEnds{1, 7}).exit_code, 7);
}

// It may have begun just then, and would look for the run in vain. A node that was drained says
// nothing of the run.
TEST(HostsCore, WhoMayLookForARunThatHasEndedIsStopped) {
  for (const int code : {0, 7}) {
    HostsStory story(4, 1);
    story.config.first_ends_run = false;
    story.AllGreet();
    story.Feed(HostEnds{0, 0});
    EXPECT_THAT(story.After(100s).signals, IsEmpty());
    story.Feed(HostGone{2, "x"});
    story.Feed(HostEnds{1, code, true});
    EXPECT_THAT(story.After(5s).signals, ElementsAre(Pair(3, SIGTERM)));
    EXPECT_EQ(story.Feed(HostEnds{3, 69}).exit_code, code);
  }
}

// Words of a connection that was dropped may still be under way.
TEST(HostsCore, WhatComesAfterTheEndChangesNothing) {
  HostsStory story(2, 2);
  story.Feed(HostGone{0, "x"});
  ASSERT_EQ(story.last.exit_code, 69);
  for (const HostsEvent& event : std::vector<HostsEvent>{
           HostGreets{1}, HostEnds{1, 5}, HostGone{1, "y"}, LaunchSignal{SIGTERM, true}}) {
    story.Feed(event);
    EXPECT_THAT(story.last.started, IsEmpty());
    EXPECT_THAT(story.last.ordered, IsEmpty());
    EXPECT_THAT(story.last.signals, IsEmpty());
    EXPECT_FALSE(story.last.exit_code);
  }
}

}  // namespace
}  // namespace ddprun
