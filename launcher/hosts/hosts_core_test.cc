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

class HostsScenario {
 public:
  HostsScenario(std::size_t hosts, std::uint32_t min_nodes) {
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
  HostsScenario scenario(2, 2);
  EXPECT_THAT(scenario.last.started, ElementsAre(0, 1));
  EXPECT_THAT(scenario.Feed(HostGreets{1}).ordered, IsEmpty());  // Where do the nodes meet?
  EXPECT_THAT(scenario.Feed(HostGreets{0}).ordered, ElementsAre(0, 1));
  EXPECT_FALSE(scenario.Feed(HostEnds{0, 3}).exit_code);
  EXPECT_EQ(scenario.Feed(HostEnds{1, 0}).exit_code, 3);
  EXPECT_EQ(NextWake(scenario.state), std::nullopt);
}

TEST(HostsCore, AHostMayAskForFilesAndHasTimeForThem) {
  HostsScenario scenario(2, 1);
  scenario.config.copies = {"ddprun (25 MB)"};
  EXPECT_THAT(scenario.Feed(HostLacks{1, 0}).sent, ElementsAre(Pair(1, 0)));
  EXPECT_EQ(scenario.said, "host n2 lacks ddprun (25 MB): sending it\n");
  EXPECT_THAT(scenario.Feed(HostLacks{1, 1}).sent, IsEmpty());  // There is no such file.
  EXPECT_THAT(scenario.After(HostsConfig::kGreetingLimit).dropped, ElementsAre(0));
  scenario.Feed(HostLacks{0, 0});
  EXPECT_THAT(scenario.After(HostsConfig::kCopyLimit).dropped, ElementsAre(1));
  EXPECT_THAT(scenario.said,
              HasSubstr("cannot reach host n2: ddprun has not answered there within 10 min"));
}

TEST(HostsCore, AFixedRunEndsWithTheFirstHostThatCannotBeReached) {
  HostsScenario scenario(3, 3);
  scenario.Feed(HostGreets{0});
  const HostsEffects effects = scenario.Feed(HostGone{1, "ssh: no route"});
  EXPECT_EQ(effects.exit_code, 69);
  EXPECT_THAT(effects.dropped, ElementsAre(0, 2));
  EXPECT_THAT(scenario.said, HasSubstr("cannot reach host n2: ssh: no route [host-unreachable]\n"
                                       "the run needs 3 of 3 hosts, but only 2 can be reached "
                                       "or are being tried"));
}

TEST(HostsCore, OneHostThatCanBeReachedIsOne) {
  HostsScenario scenario(2, 2);
  scenario.Feed(HostGreets{0});
  EXPECT_EQ(scenario.Feed(HostGone{1, "down"}).exit_code, 69);
  EXPECT_THAT(scenario.said, HasSubstr("but only 1 can be reached or is being tried\n"));
}

TEST(HostsCore, AnElasticRunContinuesAndTriesAgain) {
  HostsScenario scenario(3, 2);
  EXPECT_THAT(scenario.Feed(HostGone{1, "down"}).dropped, IsEmpty());
  scenario.Feed(HostGreets{0});
  scenario.Feed(HostGreets{2});
  EXPECT_THAT(scenario.After(1s).started, IsEmpty());
  EXPECT_THAT(scenario.After(1s).started, ElementsAre(1));
  scenario.Feed(HostGone{1, "down"});
  EXPECT_THAT(scenario.After(3s).started, IsEmpty());  // Twice as long.
  EXPECT_THAT(scenario.After(1s).started, ElementsAre(1));
  EXPECT_THAT(scenario.Feed(HostGreets{1}).ordered, ElementsAre(1));
  EXPECT_THAT(scenario.said, HasSubstr("host n2 answers again"));
}

// The rendezvous must be somewhere; where the first host is down it is on the next one.
TEST(HostsCore, TheFirstHostThatAnswersIsTheFirst) {
  HostsScenario scenario(3, 1);
  scenario.Feed(HostGreets{1});
  EXPECT_THAT(scenario.last.ordered, IsEmpty());
  EXPECT_THAT(scenario.Feed(HostGone{0, "down"}).ordered, ElementsAre(1));
  EXPECT_EQ(scenario.state.first, 1u);
  scenario.After(2s);
  EXPECT_THAT(scenario.Feed(HostGreets{0}).ordered, ElementsAre(0));
  EXPECT_EQ(scenario.state.first, 1u);  // Its nodes have its name already.
}

TEST(HostsCore, ALostHostIsTriedAgainInAFixedRunToo) {
  HostsScenario scenario(2, 2);
  scenario.AllGreet();
  scenario.Feed(HostGone{1, "timeout"});
  EXPECT_THAT(scenario.said, HasSubstr("lost the connection to host n2: timeout"));
  EXPECT_THAT(scenario.After(2s).started, ElementsAre(1));
  EXPECT_FALSE(scenario.last.exit_code);
}

// A home on a disk that hangs: the first host of all may be the one.
TEST(HostsCore, TheHostThatIsWaitedForIsSaidOnce) {
  HostsScenario scenario(3, 2);
  scenario.Feed(HostGreets{1});
  EXPECT_EQ(NextWake(scenario.state), scenario.now + HostsConfig::kSlowGreeting);
  scenario.After(HostsConfig::kSlowGreeting);
  EXPECT_EQ(scenario.said, "waiting for an answer from n1 n3, up to 1 min 00 s\n");
  scenario.After(1s);
  EXPECT_EQ(scenario.said, "waiting for an answer from n1 n3, up to 1 min 00 s\n");
}

TEST(HostsCore, ASignalGoesToWhatRunsAndEndsTheRest) {
  HostsScenario scenario(70, 1);
  scenario.Feed(HostGreets{0});
  scenario.Feed(HostGreets{1});
  EXPECT_THAT(scenario.Feed(LaunchSignal{SIGUSR1, false}).signals,
              ElementsAre(Pair(0, SIGUSR1), Pair(1, SIGUSR1)));
  EXPECT_THAT(scenario.last.dropped, IsEmpty());
  scenario.Feed(LaunchSignal{SIGTERM, true});
  EXPECT_THAT(scenario.last.signals, ElementsAre(Pair(0, SIGTERM), Pair(1, SIGTERM)));
  EXPECT_EQ(scenario.last.dropped.size(), 64u);
  EXPECT_THAT(scenario.last.started, IsEmpty());
  scenario.Feed(HostEnds{1, 143});
  EXPECT_EQ(scenario.Feed(HostEnds{0, 143}).exit_code, 143);
}

TEST(HostsCore, ALostHostIsNotTriedAgainAfterASignal) {
  HostsScenario scenario(2, 1);
  scenario.AllGreet();
  scenario.Feed(LaunchSignal{SIGTERM, true});
  scenario.Feed(HostGone{1, "x"});
  EXPECT_THAT(scenario.After(30s).started, IsEmpty());
  EXPECT_EQ(scenario.Feed(HostEnds{0, 143}).exit_code, 143);
}

// A node that came too late would look for a rendezvous that is gone.
TEST(HostsCore, AHostThatDoesNotFollowTheFirstHostsEndIsStopped) {
  HostsScenario scenario(3, 1);
  scenario.AllGreet();
  scenario.Feed(HostGone{2, "x"});
  scenario.Feed(HostEnds{0, 0});
  EXPECT_THAT(scenario.After(4s).started, IsEmpty());
  EXPECT_THAT(scenario.last.signals, IsEmpty());
  scenario.now += 1s;
  EXPECT_THAT(scenario.Feed(HostsTick{.output_waits = true}).signals, IsEmpty());
  EXPECT_THAT(scenario.After(5s).signals, ElementsAre(Pair(1, SIGTERM)));
  EXPECT_FALSE(scenario.last.exit_code);
  EXPECT_THAT(scenario.After(5s).dropped, ElementsAre(1));
  EXPECT_EQ(scenario.last.exit_code, 0);
}

// Over a slow connection; one that is cut off from the run may print for ever.
TEST(HostsCore, AHostMayPrintWhatItHasAtTheRunsEnd) {
  HostsScenario scenario(2, 2);
  scenario.AllGreet();
  scenario.Feed(HostEnds{0, 0, true});
  for (Duration passed{0}; passed < HostsConfig::kOutputLimit; passed += 5s) {
    scenario.now += 5s;
    const HostsTick tick{.output_comes = true};
    EXPECT_EQ(scenario.Feed(tick).signals.empty(), passed + 5s < HostsConfig::kOutputLimit);
  }
  HostsScenario silent(2, 2);
  silent.AllGreet();
  silent.Feed(HostEnds{0, 0, true});
  EXPECT_THAT(silent.After(5s).signals, ElementsAre(Pair(1, SIGTERM)));
}

// The others would wait for it until their join timeout.
TEST(HostsCore, ANodeThatCannotBeginEndsAFixedRun) {
  HostsScenario scenario(2, 2);
  scenario.AllGreet();
  scenario.Feed(HostEnds{1, 2});
  EXPECT_THAT(scenario.After(5s).signals, ElementsAre(Pair(0, SIGTERM)));
  EXPECT_EQ(scenario.Feed(HostEnds{0, 143}).exit_code, 2);
  HostsScenario elastic(2, 1);
  elastic.AllGreet();
  elastic.Feed(HostEnds{1, 137});
  EXPECT_THAT(elastic.After(50s).signals, IsEmpty());
  EXPECT_EQ(elastic.Feed(HostEnds{0, 0}).exit_code, 0);
}

TEST(HostsCore, AHostThatDoesNotEndAfterASignalIsDropped) {
  for (const bool again : {false, true}) {
    HostsScenario scenario(2, 2);
    scenario.AllGreet();
    scenario.Feed(LaunchSignal{SIGTERM, true});
    Duration limit = 40s;
    if (again) {
      scenario.After(1s);
      scenario.Feed(LaunchSignal{SIGINT, true});
      limit = 5s;
    }
    EXPECT_THAT(scenario.After(limit - 1s).dropped, IsEmpty());
    scenario.now += 1s;
    EXPECT_THAT(scenario.Feed(HostsTick{.output_waits = true}).dropped, ElementsAre(0, 1));
    EXPECT_EQ(scenario.last.exit_code, again ? 130 : 143);
  }
}

// The exit codes of the hosts are behind it.
TEST(HostsCore, OutputWhoseReaderStandsStillIsLeftOutAfterASignal) {
  HostsScenario scenario(1, 1);
  scenario.AllGreet();
  EXPECT_FALSE(scenario.Feed(HostsTick{.output_stands = true}).leaves_output);
  scenario.Feed(LaunchSignal{SIGINT, true});
  for (const bool stands : {false, true}) {
    EXPECT_EQ(NextWake(scenario.state), scenario.now + HostsConfig::kReaderLimit);
    scenario.now += HostsConfig::kReaderLimit;
    EXPECT_EQ(scenario.Feed(HostsTick{.output_stands = stands}).leaves_output, stands);
  }
  EXPECT_EQ(scenario.Feed(HostEnds{0, 130}).exit_code, 130);
  EXPECT_EQ(NextWake(scenario.state), std::nullopt);
}

// It may have begun just then, and would look for the run in vain. A node that was drained says
// nothing of the run.
TEST(HostsCore, AHostThatMayLookForARunThatHasEndedIsStopped) {
  for (const int code : {0, 7}) {
    HostsScenario scenario(4, 1);
    scenario.config.first_ends_run = false;
    scenario.AllGreet();
    scenario.Feed(HostEnds{0, 0});
    EXPECT_THAT(scenario.After(100s).signals, IsEmpty());
    scenario.Feed(HostGone{2, "x"});
    scenario.Feed(HostEnds{1, code, true});
    EXPECT_THAT(scenario.After(5s).signals, ElementsAre(Pair(3, SIGTERM)));
    EXPECT_EQ(scenario.Feed(HostEnds{3, 69}).exit_code, code);
  }
}

// Words of a connection that was dropped may still be under way.
TEST(HostsCore, AMessageAfterTheEndChangesNothing) {
  HostsScenario scenario(2, 2);
  scenario.Feed(HostGone{0, "x"});
  ASSERT_EQ(scenario.last.exit_code, 69);
  for (const HostsEvent& event : std::vector<HostsEvent>{
           HostGreets{1}, HostEnds{1, 5}, HostGone{1, "y"}, LaunchSignal{SIGTERM, true}}) {
    scenario.Feed(event);
    EXPECT_THAT(scenario.last.started, IsEmpty());
    EXPECT_THAT(scenario.last.ordered, IsEmpty());
    EXPECT_THAT(scenario.last.signals, IsEmpty());
    EXPECT_FALSE(scenario.last.exit_code);
  }
}

}  // namespace
}  // namespace ddprun
