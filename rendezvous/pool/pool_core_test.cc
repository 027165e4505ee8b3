#include "rendezvous/pool/pool_core.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

namespace ddprun {
namespace {

// A pool whose clock goes only where a test says; daemons do at once what they are ordered to.
class PoolCoreTest : public ::testing::Test {
 protected:
  PoolCoreTest() { Pass(PoolCore::kDaemonPatience); }

  void Pass(Duration duration) {
    now_ += duration;
    core_.Settle(now_);
  }
  void Offer(const std::string& name) {
    daemons_[name].name = name;
    daemons_[name].incarnation = {1};
    Say(name);
  }
  void Say(const std::string& name) {
    ASSERT_TRUE(core_.OnOffer(daemons_[name], now_));
    core_.Settle(now_);
  }
  void Request(const RunId& run, std::uint32_t least, std::uint32_t most, bool detached = false) {
    PoolRequest& request = requests_[run];
    request.run_id = run;
    request.incarnation = {7};
    request.min_nodes = least;
    request.max_nodes = most;
    request.args = {"--", run};
    request.detached = detached;
    SayRequest(run);
  }
  void SayRequest(const RunId& run) {
    ASSERT_TRUE(core_.OnRequest(requests_[run]));
    core_.Settle(now_);
    requests_[run].ticket = core_.ViewFor(run).ticket;
    requests_[run].placed = core_.ViewFor(run).placed;
  }
  // Each daemon starts what it is to start.
  void Obey() {
    for (auto& [name, offer] : daemons_) {
      const PoolOrder order = core_.OrderFor(name);
      if (!order.run_id.empty() && offer.run_id.empty() && !order.end) {
        offer.run_id = order.run_id;
        offer.part = order.part;
        offer.detached = order.detached;
        Say(name);
      }
    }
  }
  // The run "a", on so many daemons from n1 on.
  void Begin(std::uint32_t daemons) {
    for (std::uint32_t i = 1; i <= daemons; ++i) {
      Offer("n" + std::to_string(i));
    }
    Request("a", daemons, daemons);
    Obey();
  }
  void End(const std::string& name, std::optional<int> code) {
    PoolOffer& offer = daemons_[name];
    offer.ended.push_back({offer.run_id, offer.part, code});
    offer.run_id.clear();
    offer.part = 0;
    Say(name);
  }
  // "n1 n2": the daemons that have this run now.
  std::string On(const RunId& run) const {
    std::string names;
    for (const PoolPart& part : core_.ViewFor(run).parts) {
      names += part.ended ? "" : (names.empty() ? "" : " ") + part.name;
    }
    return names;
  }
  std::string State(const std::string& name) const {
    for (const PoolMember& member : core_.Status().members) {
      if (member.name == name) {
        return member.state;
      }
    }
    return "none";
  }
  std::string StateOfRun(const RunId& run) const {
    const auto runs = core_.Status().runs;
    const auto found = std::ranges::find(runs, run, &PoolQueued::run_id);
    return found == runs.end() ? "none" : found->state;
  }
  bool Knows(const RunId& run) const { return StateOfRun(run) != "none"; }
  // Another server, to which everyone comes.
  void BeginAgain() { core_ = PoolCore(1'000'000, now_); }

  Time now_{};
  PoolCore core_{1'000, now_};
  std::map<std::string, PoolOffer> daemons_;
  std::map<RunId, PoolRequest> requests_;
};

TEST_F(PoolCoreTest, RunsArePlacedInTheOrderInWhichTheyCame) {
  Offer("n1");
  Offer("n2");
  Request("a", 2, 2);
  EXPECT_EQ(On("a"), "n1 n2");
  Obey();
  Request("big", 2, 2);
  Request("small", 1, 1);
  Request("after", 1, 1);
  EXPECT_EQ(core_.ViewFor("small").place, 2u);
  std::vector<RunId> shown;
  for (const PoolQueued& run : core_.Status().runs) {
    shown.push_back(run.run_id);
  }
  EXPECT_EQ(shown, (std::vector<RunId>{"a", "big", "small", "after"}));
  End("n1", 0);
  EXPECT_FALSE(core_.ViewFor("small").placed) << "it must not overtake";
  End("n2", 0);
  EXPECT_TRUE(core_.ViewFor("a").over);
  EXPECT_EQ(On("big"), "n1 n2");
}

TEST_F(PoolCoreTest, DaemonsThatAreUnfitOrDrainedGetNothing) {
  daemons_["n1"].unfit = "a GPU is missing";
  Offer("n1");
  Offer("n2");
  EXPECT_TRUE(core_.Drain("n2"));
  EXPECT_FALSE(core_.Drain("n9"));
  Request("a", 1, 1);
  EXPECT_FALSE(core_.ViewFor("a").placed);
  EXPECT_EQ(State("n1"), "unfit: a GPU is missing");
  EXPECT_EQ(State("n2"), "drained");
  EXPECT_TRUE(core_.OrderFor("n2").drained);
}

TEST_F(PoolCoreTest, ALaunchThatIsGoneEndsItsRunButNotADetachedOne) {
  Offer("n1");
  Offer("n2");
  Request("a", 1, 1);
  Request("d", 1, 1, /*detached=*/true);
  Request("waits", 1, 1);
  Obey();
  for (const char* const run : {"a", "d", "waits"}) {
    core_.OnLaunchGone(run, {7}, now_);
  }
  Pass(PoolCore::kLaunchPatience - Duration{1});
  EXPECT_FALSE(core_.OrderFor("n1").end);
  EXPECT_TRUE(Knows("waits"));
  Pass(Duration{1});
  EXPECT_TRUE(core_.OrderFor("n1").end);
  EXPECT_FALSE(core_.OrderFor("n2").end);
  EXPECT_FALSE(Knows("waits"));
  End("n1", 143);
  EXPECT_FALSE(Knows("a"));
  End("n2", 0);
  EXPECT_EQ(StateOfRun("d"), "has ended with exit code 0");
}

TEST_F(PoolCoreTest, AServerKeepsItsDetachedRunsForTheNextOne) {
  Offer("n1");
  Request("a", 1, 1);
  Request("trains", 1, 1, /*detached=*/true);
  Request("waits", 1, 1, /*detached=*/true);
  Request("later", 1, 1, /*detached=*/true);
  Obey();
  End("n1", 0);
  Obey();
  for (const char* const run : {"trains", "waits", "later"}) {
    core_.OnLaunchGone(run, {7}, now_);
  }
  const std::vector<PoolRequest> kept = core_.Detached();
  ASSERT_EQ(kept.size(), 3u) << "attached runs have their launches";
  BeginAgain();
  for (const PoolRequest& request : kept) {
    core_.Restore(request, now_);
  }
  EXPECT_EQ(core_.Detached(), kept);
  Say("n1");
  Pass(PoolCore::kDaemonPatience);
  EXPECT_EQ(On("trains"), "n1");
  End("n1", 0);
  EXPECT_EQ(On("waits"), "n1");
  Obey();
  End("n1", 0);
  EXPECT_EQ(On("later"), "n1");
  EXPECT_EQ(StateOfRun("trains"), "has ended with exit code 0");
}

TEST_F(PoolCoreTest, TheEndsOfTheLastDetachedRunsAreKnown) {
  Offer("n1");
  for (std::size_t i = 0; i <= kMostPastRuns; ++i) {
    const RunId run = "r" + std::to_string(i);
    Request(run, 1, 1, /*detached=*/true);
    core_.OnLaunchGone(run, {7}, now_);
    Obey();
    daemons_["n1"].said = {{1, 1, "begins"}, {2, 3, "its directory is not there"}};
    daemons_["n1"].said_part = daemons_["n1"].part;
    End("n1", 69);
  }
  EXPECT_EQ(StateOfRun("r0"), "none");
  EXPECT_EQ(StateOfRun("r1"), "has ended with exit code 69: n1: its directory is not there");
  requests_.erase("r1");
  Request("r1", 1, 1, /*detached=*/true);
  EXPECT_EQ(StateOfRun("r1"), "runs on n1");
}

TEST_F(PoolCoreTest, AnotherRunOfTheSameNameIsRefused) {
  Offer("n1");
  Request("a", 1, 1);
  PoolRequest other = requests_["a"];
  other.incarnation = {8};
  EXPECT_FALSE(core_.OnRequest(other));
}

TEST_F(PoolCoreTest, TheCodeIsOfThePartThatFailedFirst) {
  Begin(2);
  End("n2", 3);
  EXPECT_FALSE(core_.OrderFor("n1").end) << "it may end by itself";
  Pass(PoolCore::kFailureGrace);
  EXPECT_TRUE(core_.OrderFor("n1").end);
  End("n1", 143);
  EXPECT_EQ(core_.ViewFor("a").exit_code, 3);
}

TEST_F(PoolCoreTest, ADaemonThatIsLostIsReplacedBeforeAnyoneElseIsServed) {
  Begin(2);
  Request("b", 1, 1);
  core_.OnDaemonGone("n2", {1}, now_);
  Pass(PoolCore::kDaemonPatience - Duration{1});
  Offer("n3");
  EXPECT_EQ(On("b"), "n3") << "until then it is not lost";
  Pass(Duration{1});
  EXPECT_EQ(On("a"), "n1");
  Offer("n4");
  EXPECT_EQ(On("a"), "n1 n4");
}

TEST_F(PoolCoreTest, NothingRunsTwiceAcrossServers) {
  Begin(1);
  PoolRequest unaware = requests_["a"];
  unaware.placed = false;  // It has not heard so.
  BeginAgain();
  PoolOffer& offer = daemons_["n1"];
  offer.ended.push_back({"a", offer.part, 0});
  offer.run_id.clear();
  Say("n1");
  ASSERT_TRUE(core_.OnRequest(unaware));
  Pass(PoolCore::kRecovery);
  EXPECT_TRUE(core_.ViewFor("a").over);
  EXPECT_EQ(core_.ViewFor("a").exit_code, 0);
}

TEST_F(PoolCoreTest, ARunThatNoDaemonRemembersIsOver) {
  Begin(1);
  SayRequest("a");
  BeginAgain();
  SayRequest("a");
  Pass(PoolCore::kRecovery);
  EXPECT_FALSE(core_.ViewFor("a").over) << "its daemon may still come";
  Pass(PoolCore::kDaemonPatience);
  EXPECT_TRUE(core_.ViewFor("a").over);
  EXPECT_EQ(core_.ViewFor("a").exit_code, std::nullopt);
}

TEST_F(PoolCoreTest, ANewServerEndsARunWhoseLaunchDoesNotComeUnlessItIsDetached) {
  Offer("n1");
  Offer("n2");
  Request("a", 1, 1);
  Request("d", 1, 1, /*detached=*/true);
  Obey();
  BeginAgain();
  Say("n1");
  Say("n2");
  Pass(PoolCore::kDaemonPatience);
  EXPECT_FALSE(core_.OrderFor("n1").end);
  Pass(PoolCore::kLaunchPatience);
  EXPECT_TRUE(core_.OrderFor("n1").end);
  EXPECT_FALSE(core_.OrderFor("n2").end);
}

TEST_F(PoolCoreTest, ADaemonThatComesLateToANewServerKeepsItsRun) {
  Begin(1);
  SayRequest("a");
  BeginAgain();
  Offer("n2");
  SayRequest("a");
  Pass(PoolCore::kDaemonPatience - Duration{1});
  EXPECT_EQ(On("a"), "") << "its daemon may still come";
  Say("n1");
  Pass(PoolCore::kDaemonPatience);
  EXPECT_EQ(On("a"), "n1");
  EXPECT_EQ(State("n2"), "free");
  EXPECT_FALSE(core_.OrderFor("n1").end);
}

TEST_F(PoolCoreTest, ARunWhoseDaemonsMayStillComeIsNotOvertakenAtANewServer) {
  Begin(2);
  Request("later", 1, 1);
  BeginAgain();
  Say("n1");
  SayRequest("a");
  SayRequest("later");
  Offer("n3");
  Pass(PoolCore::kDaemonPatience - Duration{1});
  EXPECT_EQ(On("later"), "");
  Pass(PoolCore::kDaemonPatience);
  EXPECT_EQ(On("a"), "n1 n3");
  EXPECT_EQ(On("later"), "");
}

TEST_F(PoolCoreTest, ANewServerWhoseClockIsBehindGivesNoNumberTwice) {
  Begin(1);
  const std::uint64_t part = core_.OrderFor("n1").part;
  End("n1", 0);
  core_ = PoolCore(1, now_);
  Say("n1");
  Pass(PoolCore::kRecovery);
  requests_.clear();
  Request("b", 1, 1);
  EXPECT_GT(core_.OrderFor("n1").part, part);
}

TEST_F(PoolCoreTest, ARunContinuesWithoutADrainedDaemonAndGetsAnother) {
  Begin(2);
  Offer("n3");
  core_.Drain("n2");
  End("n2", 143);
  EXPECT_EQ(On("a"), "n1 n3");
  Obey();
  End("n1", 0);
  End("n3", 0);
  EXPECT_EQ(core_.ViewFor("a").exit_code, 0);
}

TEST_F(PoolCoreTest, ARunThatContinuesWithoutAFailedPartSucceeds) {
  Offer("n1");
  Offer("n2");
  Request("a", 1, 2);
  Obey();
  End("n2", 137);
  End("n1", 0);
  EXPECT_TRUE(core_.ViewFor("a").over);
  EXPECT_EQ(core_.ViewFor("a").exit_code, 0);
}

TEST_F(PoolCoreTest, APartThatComesAfterTheEndDoesNotChangeIt) {
  for (const int code : {0, 130}) {
    Offer("n1");
    Offer("n2");
    Request("a", 1, 2);
    Obey();
    End("n1", code);
    End("n2", 69);  // Its node does not find the run any more.
    EXPECT_EQ(core_.ViewFor("a").exit_code, code);
    core_.OnLaunchGone("a", {7}, now_);
    Pass(Duration{0});
    requests_.clear();
  }
}

TEST_F(PoolCoreTest, APartThatNoRunHasIsEnded) {
  daemons_["n1"].run_id = "old";
  daemons_["n1"].part = 5;
  Offer("n1");
  EXPECT_TRUE(core_.OrderFor("n1").end);
  EXPECT_EQ(core_.OrderFor("n1").run_id, "old");
}

// The server forgets an earlier run of the name then, and at no other time.
TEST_F(PoolCoreTest, ARunBeginsOnce) {
  Begin(1);
  EXPECT_EQ(core_.TakeBegun(), std::vector<RunId>{"a"});
  const std::uint64_t first = core_.OrderFor("n1").part;
  daemons_["n1"].incarnation = {2};  // Its machine begins again, without the part.
  daemons_["n1"].run_id.clear();
  daemons_["n1"].part = 0;
  Say("n1");
  EXPECT_EQ(On("a"), "n1");
  EXPECT_GT(core_.OrderFor("n1").part, first);
  Obey();
  EXPECT_TRUE(core_.TakeBegun().empty());
  BeginAgain();
  Say("n1");
  SayRequest("a");
  Pass(PoolCore::kDaemonPatience);
  EXPECT_TRUE(core_.TakeBegun().empty());
}

TEST_F(PoolCoreTest, ARunThatHasLostAllItsMachinesWaitsAgain) {
  Offer("n1");
  Offer("n2");
  Request("cannot start", 1, 1);
  daemons_["n1"].unfit = "its disk is full";
  daemons_["n2"].unfit = "its disk is full";
  Say("n2");
  Say("n1");
  EXPECT_EQ(StateOfRun("cannot start"),
            "waits: it needs 1 daemon, and the pool has 0 that can take a run");
  Request("later", 1, 1);
  EXPECT_EQ(core_.ViewFor("later").place, 2u);
  SayRequest("cannot start");
  requests_["cannot start"].placed = true;  // It has not heard yet.
  SayRequest("cannot start");
  EXPECT_FALSE(core_.ViewFor("cannot start").placed);
  EXPECT_TRUE(core_.StopWaiting("cannot start"));
  daemons_["n1"].unfit.clear();
  Say("n1");
  EXPECT_TRUE(core_.ViewFor("cannot start").over);
  EXPECT_EQ(core_.ViewFor("cannot start").exit_code, 130);
  EXPECT_EQ(On("later"), "n1");
  Obey();
  core_.OnDaemonGone("n1", {1}, now_);
  Pass(PoolCore::kDaemonPatience);
  EXPECT_FALSE(core_.ViewFor("later").placed) << "its machine is lost";
  daemons_["n2"].unfit.clear();
  Say("n2");
  EXPECT_EQ(On("later"), "n2");
}

TEST_F(PoolCoreTest, ASignalTakesAWaitingRunOutOfTheQueueAtOnce) {
  Request("a", 1, 1);
  requests_["a"].signals = "\12";  // SIGUSR1, from a time when it ran.
  SayRequest("a");
  EXPECT_FALSE(core_.ViewFor("a").over);
  requests_["a"].signals = "\2";
  SayRequest("a");
  Offer("n1");
  EXPECT_TRUE(core_.ViewFor("a").over);
  EXPECT_EQ(State("n1"), "free");
}

TEST_F(PoolCoreTest, ATicketThatCannotBeGivesNoPlaceAndLosesNoRun) {
  Request("first", 1, 1);
  requests_["a"].ticket = kMaxCount;
  Request("a", 1, 1);
  EXPECT_LT(requests_["a"].ticket, 10'000u);
  requests_["a"].ticket = kMaxCount;  // Said again before it has heard.
  SayRequest("a");
  Request("last", 1, 1);
  EXPECT_EQ(core_.ViewFor("a").place, 2u);
  EXPECT_EQ(core_.ViewFor("last").place, 3u);
  BeginAgain();
  PoolRequest kept{.run_id = "kept", .incarnation = {7}, .ticket = kMaxCount, .detached = true};
  core_.Restore(kept, now_);
  EXPECT_TRUE(Knows("kept"));
}

}  // namespace
}  // namespace ddprun
