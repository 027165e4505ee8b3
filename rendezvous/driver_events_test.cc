// The events of a run: numbered, kept by nodes of its world, and known to the next server.
#include <gtest/gtest.h>

#include <algorithm>

#include "rendezvous/testing/driver_testing.h"

namespace ddprun {
namespace {

// One server, and one node that it runs on.
struct Server {
  AsioLoop& loop;
  CoordinatorDriver driver;
  std::vector<std::string> kept;
  NodeReport report = FirstReportOf("n0", {.min_nodes = 1, .max_nodes = 1, .max_restarts = 3});

  Server(AsioLoop& of, std::uint64_t term)
      : loop(of), driver(of, CoordinatorConfig{.term = {term}}) {
    driver.TellEvents([this](const RunId& run, const RunEvent& event) {
      kept.push_back(run + " " + std::to_string(event.term.value) + "." +
                     std::to_string(event.number) + " " + event.kind);
    });
  }
  SyncReply Tell() {
    ++report.sequence;
    const auto asked = std::make_shared<AskedSync>();
    driver.OnReport(report, asked);
    EXPECT_TRUE(asked->told);
    if (asked->told) {
      report.term = asked->told->term;
      report.beat = asked->told->beat;
    }
    return asked->told.value_or(SyncReply{});
  }
  std::vector<RunEvent> Known() const { return driver.StatusOfRuns("run").value().at(0).events; }
};

struct DriverEvents : DriverTest {};

RunEvent Of(std::uint64_t term, std::uint64_t number) {
  RunEvent event;
  event.kind = kEventLost;
  event.text = "a node is lost";
  event.term = {term};
  event.number = number;
  return event;
}

TEST_F(DriverEvents, AreNumberedAndSentToTheNodesThatKeepThem) {
  OnLoop([&] {
    Server server(loop, 9);
    const SyncReply first = server.Tell();
    ASSERT_TRUE(std::holds_alternative<ddprun::Run>(first.directive));
    ASSERT_EQ(first.events.size(), 1u);
    EXPECT_EQ(first.events[0].kind, kEventFormed);
    EXPECT_EQ(first.events[0].mark(), (EventMark{{9}, 1}));
    EXPECT_GT(first.events[0].when.ms, 1'600'000'000'000);
    EXPECT_EQ(server.kept, (std::vector<std::string>{"run 9.1 formed"}));
    server.report.events_seen = first.events[0].mark();
    server.report.placement = std::get<ddprun::Run>(first.directive).placement;
    server.report.hosting = Hosting::kStopping;
    server.report.start_timings.started = Duration{1};
    const SyncReply second = server.Tell();
    ASSERT_EQ(second.events.size(), 2u);
    EXPECT_EQ(second.events[1].kind, kEventStopping);
    EXPECT_EQ(second.events[1].cause, "worker");
    EXPECT_EQ(second.events[1].number, 3u);
  });
}

TEST_F(DriverEvents, OfAnEarlierServerComeFromTheNodesAndAreAskedForOnce) {
  OnLoop([&] {
    Server server(loop, 9);
    EXPECT_EQ(server.Tell().events_kept, EventMark{});
    server.report.events = {Of(7, 1), Of(7, 2), Of(9, 5), Of(11, 1)};
    EXPECT_EQ(server.Tell().events_kept, (EventMark{{7}, 2}));
    const auto known = server.Known();
    ASSERT_EQ(known.size(), 3u);  // Its own, and nothing of its own term or a later one.
    EXPECT_EQ(known[0].mark(), (EventMark{{7}, 1}));
    EXPECT_EQ(known[2].mark(), (EventMark{{9}, 1}));
    EXPECT_EQ(server.kept.back(), "run 7.2 node_lost");
    server.Tell();
    EXPECT_EQ(server.kept.size(), 3u);
  });
}

// A made-up mark does not tell the others that all is known.
TEST_F(DriverEvents, OneNodesMarkSilencesNoOther) {
  OnLoop([&] {
    Server server(loop, 9);
    server.Tell();
    server.report.events = {Of(8, kMaxCount)};
    EXPECT_EQ(server.Tell().events_kept, (EventMark{{8}, kMaxCount}));
    server.report.incarnation = {2};
    server.report.sequence = 0;
    server.report.events = {};
    const auto asked = std::make_shared<AskedSync>();
    server.driver.OnReport(server.report, asked);
    EXPECT_TRUE(!asked->told || asked->told->events_kept == EventMark{});
  });
}

// Else made-up memberships would leave a mark each, beside what a run may hold.
TEST_F(DriverEvents, OfUnknownNodesCountForNothingWhileItRecovers) {
  OnLoop([&] {
    Server server(loop, 9);
    server.driver.TakeOver({}, false);
    server.report.term = {7};
    server.report.sequence = 1;
    server.report.events = {Of(7, 1)};
    server.driver.OnReport(server.report, std::make_shared<AskedSync>());
    ASSERT_EQ(server.driver.StateOf("run")->phase, Phase::kRecovering);
    const auto kept = [&] {
      return std::count(server.kept.begin(), server.kept.end(), "run 7.1 node_lost");
    };
    EXPECT_EQ(kept(), 0);
    // No other node has the events that it reported, so it reports them again.
    ++server.report.sequence;
    server.driver.OnReport(server.report, std::make_shared<AskedSync>());
    EXPECT_EQ(kept(), 1);
  });
}

TEST_F(DriverEvents, OfAnUnknownNodeAreIgnored) {
  OnLoop([&] {
    Server server(loop, 9);
    server.Tell();
    NodeReport unknown = server.report;
    unknown.node = "n9";
    unknown.sequence = 1;
    unknown.events = {Of(7, 1)};
    server.driver.OnReport(unknown, std::make_shared<AskedSync>());
    EXPECT_EQ(server.Known().size(), 1u);
  });
}

}  // namespace
}  // namespace ddprun
