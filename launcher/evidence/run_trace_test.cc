#include "launcher/evidence/run_trace.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>

namespace ddprun {
namespace {

using nlohmann::json;

RunEvent Event(const char* kind, std::int64_t when, std::uint64_t number,
               std::uint64_t generation = 0, std::uint64_t term = 7) {
  RunEvent event;
  event.kind = kind;
  event.text = std::string(kind) + " \"</script>\" \xff";
  event.term = {term};
  event.number = number;
  event.when = {when};
  event.generation = {generation};
  return event;
}

// A world is formed at 1 s, trains, loses a node at 5 s, and the next one trains at 6.5 s.
RunStory Story() {
  RunStory story;
  story.run.run_id = "demo";
  story.run.generation = {2};
  story.unix_ms = 10'000;
  RunEvent started = Event(kEventStarted, 2'000, 2, 1);
  started.form = Duration{100};
  started.start = Duration{300};
  started.state = Duration{0};
  started.first_step = Duration{600};
  started.lost = Duration{1'000};
  RunEvent lost = Event(kEventLost, 5'000, 3, 1);
  lost.node = "n1";
  RunEvent recovered = Event(kEventRecovered, 6'600, 7, 2);  // A little later than it was so.
  recovered.detect = Duration{200};
  recovered.stop = Duration{300};
  recovered.form = Duration{400};
  recovered.start = Duration{500};
  recovered.first_step = Duration{100};
  recovered.lost = Duration{1'500};
  story.events = {Event(kEventFormed, 1'100, 1, 1),
                  started,
                  lost,
                  Event(kEventStopping, 5'000, 4, 1),
                  Event(kEventRestarting, 5'300, 5, 1),
                  Event(kEventFormed, 5'700, 6, 2),
                  recovered,
                  Event(kEventAsked, 7'000, 8)};
  Startup again;
  again.generation = {2};
  again.age = Duration{5'000};
  again.detect = recovered.detect;
  again.stop = recovered.stop;
  again.form = recovered.form;
  again.start = recovered.start;
  again.first_step = recovered.first_step;
  story.run.startups = {again};
  story.points = {{3'000, {.step = 10, .loss = 0.5}},
                  {4'000, {.step = 20, .loss = std::numeric_limits<double>::quiet_NaN()}},
                  {8'000, {.step = 30, .loss = 0.25, .samples_per_s = 640}}};
  return story;
}

struct TraceTest : ::testing::Test {
  std::vector<json> Read(const RunStory& story, const char* phase) {
    const json trace = json::parse(RunTrace(story));
    std::vector<json> events;
    for (const json& event : trace.at("traceEvents")) {
      EXPECT_TRUE(event.at("name").is_string());
      if (event.at("ph") == phase) {
        events.push_back(event);
      }
    }
    return events;
  }
  // On one row a slice lies in the one that is open, or after it.
  void Nests(const RunStory& story) {
    std::map<int, std::vector<double>> open;  // By row: ends.
    for (const json& slice : Read(story, "X")) {
      const double begin = slice.at("ts");
      const double end = begin + slice.at("dur").get<double>();
      ASSERT_GE(begin, 0);
      ASSERT_GE(end, begin);
      auto& ends = open[slice.at("tid").get<int>()];
      while (!ends.empty() && ends.back() <= begin &&
             !(slice.at("cat") == "part" && ends.size() == 1)) {
        ends.pop_back();
      }
      ASSERT_TRUE(ends.empty() || end <= ends.back()) << slice;
      ends.push_back(end);
    }
  }
};

TEST_F(TraceTest, ARecoveryHasItsPartsInIt) {
  const auto slices = Read(Story(), "X");
  std::vector<json> recovery;
  for (const json& slice : slices) {
    if (slice["name"] == "recovery: generation 2" || !recovery.empty()) {
      recovery.push_back(slice);
    }
  }
  ASSERT_GE(recovery.size(), 6u);
  // Everything began at 1 s; the server knows that this one began 5 s before 10 s.
  EXPECT_EQ(recovery[0]["ts"], 4'000'000.0);
  EXPECT_EQ(recovery[0]["dur"], 1'500'000.0);
  const std::vector<std::pair<std::string, double>> parts{{"detect", 4'000'000.},
                                                          {"stop", 4'200'000.},
                                                          {"form", 4'500'000.},
                                                          {"start", 4'900'000.},
                                                          {"first_step", 5'400'000.}};
  for (std::size_t i = 0; i < parts.size(); ++i) {
    EXPECT_EQ(recovery[i + 1]["name"], parts[i].first);
    EXPECT_EQ(recovery[i + 1]["ts"], parts[i].second);
    EXPECT_EQ(recovery[i + 1]["tid"], recovery[0]["tid"]);
  }
  Nests(Story());
}

// What an earlier server has measured is known by its event alone.
TEST_F(TraceTest, AStartOfAnEarlierServerEndsWhereItWasTold) {
  for (const json& slice : Read(Story(), "X")) {
    if (slice["name"] == "start of generation 1") {
      EXPECT_EQ(slice["ts"], 0.0);
      EXPECT_EQ(slice["dur"], 1'000'000.0);
      return;
    }
  }
  FAIL();
}

TEST_F(TraceTest, WorldsLastUntilNothingIsLeftOfThem) {
  std::map<std::string, json> worlds;
  for (const json& slice : Read(Story(), "X")) {
    if (slice["cat"] == "world") {
      worlds[slice["name"]] = slice;
    }
  }
  ASSERT_EQ(worlds.size(), 2u);
  EXPECT_EQ(worlds["generation 1"]["ts"], 100'000.0);
  EXPECT_EQ(worlds["generation 1"]["dur"], 4'200'000.0);
  EXPECT_EQ(worlds["generation 2"]["ts"], 4'700'000.0);
  EXPECT_EQ(worlds["generation 2"]["dur"], 4'300'000.0);  // It goes on.
}

TEST_F(TraceTest, EventsAreInstantsAndTheCurveCounters) {
  std::set<std::string> kinds;
  for (const json& instant : Read(Story(), "i")) {
    kinds.insert(instant["name"]);
    if (instant["name"] == "node_lost") {
      EXPECT_EQ(instant["ts"], 4'000'000.0);
      EXPECT_EQ(instant["args"]["node"], "n1");
    }
  }
  EXPECT_EQ(kinds, (std::set<std::string>{"asked", "node_lost", "stopping"}));
  std::map<std::string, std::vector<double>> counted;
  for (const json& counter : Read(Story(), "C")) {
    const std::string name = counter["name"];
    counted[name].push_back(counter["args"][name]);
  }
  EXPECT_EQ(counted["step"], (std::vector<double>{10, 20, 30}));
  EXPECT_EQ(counted["loss"], (std::vector<double>{0.5, 0.25}));  // What is no number is none.
  EXPECT_EQ(counted["samples/s"], (std::vector<double>{640}));
}

// Clocks of two servers differ, and nodes may make up what an earlier one has said.
TEST_F(TraceTest, ClocksThatDisagreeAndMadeUpTimesNestAllTheSame) {
  RunStory story = Story();
  story.run.startups.clear();
  story.events.push_back(Event(kEventFormed, 3'000, 1, 3, 9));
  RunEvent early = Event(kEventRecovered, 3'500, 2, 3, 9);
  early.stop = early.lost = Duration{2'500};
  story.events.push_back(early);
  RunEvent wild = Event(kEventRecovered, std::numeric_limits<std::int64_t>::max(), 3, 4, 9);
  wild.stop = wild.detect = wild.lost = Duration{std::numeric_limits<std::int64_t>::max()};
  wild.form = Duration{std::numeric_limits<std::int64_t>::min()};
  story.events.push_back(wild);
  story.events.push_back(Event(kEventLost, std::numeric_limits<std::int64_t>::min(), 4, 4, 9));
  Nests(story);
}

TEST_F(TraceTest, OfNothingParses) {
  EXPECT_EQ(Read({}, "X").size(), 0u);
  RunStory story = Story();
  story.events.clear();
  Nests(story);
}

TEST(StoryTeller, StepsBetweenTwoLooksGetEvenTimes) {
  StoryTeller teller;
  RunStatus run;
  teller.Look(run, 1'000);
  run.training = {{.step = 5}, {.step = 10}};
  teller.Look(run, 2'000);  // When the first of them was is not known.
  run.training = {{.step = 5}, {.step = 10}, {.step = 15}, {.step = 20}};
  teller.Look(run, 3'000);
  run.training = {{.step = 5}, {.step = 12}};  // From a checkpoint.
  teller.Look(run, 4'000);
  std::vector<std::pair<std::int64_t, std::uint64_t>> times;
  for (const TimedPoint& timed : teller.points()) {
    times.emplace_back(timed.unix_ms, timed.point.step);
  }
  EXPECT_EQ(times, (std::vector<std::pair<std::int64_t, std::uint64_t>>{
                       {2'000, 10}, {2'500, 15}, {3'000, 20}, {4'000, 12}}));
}

TEST(StoryTeller, KeepsABoundedCurveWithItsEnd) {
  StoryTeller teller;
  RunStatus run;
  for (std::uint64_t step = 1; step <= 5'000; ++step) {
    run.training = {{.step = step}};
    teller.Look(run, static_cast<std::int64_t>(step) * 1'000);
  }
  EXPECT_LE(teller.points().size(), StoryTeller::kMostTimed);
  EXPECT_GE(teller.points().size(), StoryTeller::kMostTimed / 4);
  EXPECT_EQ(teller.points().back().point.step, 5'000u);
}

}  // namespace
}  // namespace ddprun
