#include "rendezvous/messages/history.h"

#include <gtest/gtest.h>

#include <limits>

namespace ddprun {
namespace {

constexpr Term kAny{std::numeric_limits<std::uint64_t>::max()};

RunEvent Of(std::uint64_t term, const std::string& text, std::uint64_t number = 0) {
  RunEvent event;
  event.term = {term};
  event.number = number;
  event.text = text;
  return event;
}

std::string Texts(const std::vector<RunEvent>& events) {
  std::string texts;
  for (const RunEvent& event : events) {
    texts += (texts.empty() ? "" : " ") + event.text;
  }
  return texts;
}

std::string All(const History& history) {
  return Texts({history.events().begin(), history.events().end()});
}

TEST(History, AnEventThatNodesKeptComesToItsPlaceOnce) {
  History history;
  history.Append(Of(9, "own"));
  EXPECT_EQ(Texts(history.Merge({Of(7, "b", 2), Of(7, "a", 1)}, {9})), "b a");
  EXPECT_EQ(Texts(history.Merge({Of(7, "a", 1), Of(8, "c", 1)}, {9})), "c");
  EXPECT_EQ(All(history), "a b c own");
}

TEST(History, TheOldestAfterAMarkComeFirst) {
  History history;
  for (const char* text : {"a", "b", "c", "d"}) {
    history.Append(Of(7, text));
  }
  history.Append(Of(8, "e"));
  EXPECT_EQ(Texts(history.After({}, 2, 1 << 20, kAny)), "a b");
  EXPECT_EQ(Texts(history.After({{7}, 3}, 9, 1 << 20, kAny)), "d e");
  EXPECT_EQ(Texts(history.After({{7}, 3}, 9, 1 << 20, {8})), "d");
  EXPECT_EQ(Texts(history.After({{7}, 1}, 9, 1, kAny)), "b");  // One always goes.
  EXPECT_EQ(Texts(history.After({{8}, 1}, 9, 1 << 20, kAny)), "");
}

TEST(History, CountsWhatEndedWorldsAndWhatThatCost) {
  History history;
  const auto add = [&](const char* kind, const char* cause, Duration lost) {
    RunEvent event = Of(7, "x");
    event.kind = kind;
    event.cause = cause;
    event.lost = lost;
    history.Append(event);
  };
  add(kEventStarted, "start", Duration{900});  // Nothing had been trained.
  add(kEventStopping, "worker", Duration{0});
  add(kEventRestarting, "worker", Duration{0});
  add(kEventRecovered, "worker", Duration{40});
  add(kEventStopped, "node_lost", Duration{0});
  add(kEventRestarting, "worker", Duration{0});
  add(kEventRecovered, "worker", Duration{2});
  EXPECT_EQ(history.totals(),
            (std::vector<CauseTotal>{{"worker", 2, Duration{42}}, {"node_lost", 1, Duration{0}}}));
  for (int i = 0; i < 100; ++i) {  // As a peer may make them up.
    add(kEventRecovered, std::to_string(i).c_str(), Duration{1});
  }
  ASSERT_EQ(history.totals().size(), 3u);
  EXPECT_EQ(history.totals().back(), (CauseTotal{"other", 0, Duration{100}}));
}

// Goodput counts from there: a wall clock that is set must not make it a century, or nothing.
TEST(History, HowFarItGoesBackIsAsTheSteadyClockSays) {
  using std::chrono_literals::operator""s;
  constexpr UnixTime kBegan{1'800'000'000'000};
  const Time started{1'000s};
  const KeptSince kept{started, kBegan};
  History history;
  EXPECT_EQ(history.KnownFor(kept, started + 60s), Duration{0});
  RunEvent event = Of(7, "formed");
  event.when = kBegan;
  event.told = started + 10s;
  history.Append(event);
  for (const std::int64_t jump : {-1'000'000'000LL, 1'000'000'000LL}) {
    event.when = {kBegan.ms + jump};
    event.told = started + 40s;
    const RunEvent& told = history.Append(event);
    EXPECT_EQ(AgeOf(told, kept, started + 100s), 60s);
    EXPECT_EQ(history.KnownFor(kept, started + 100s), 90s);
  }
  RunEvent earlier = Of(6, "formed", 1);  // By another server, a minute before.
  earlier.when = {kBegan.ms - 60'000};
  history.Merge({earlier}, {7});
  EXPECT_EQ(history.KnownFor(kept, started + 100s), 160s);
  earlier.when = {kBegan.ms + 60'000};  // Its clock was ahead.
  EXPECT_EQ(AgeOf(earlier, kept, started + 100s), 100s);
}

TEST(History, AnEventThatMadeRoomNeverComesBack) {
  History history;
  for (std::size_t i = 0; i < History::kMostEvents; ++i) {
    history.Append(Of(7, "x"));
  }
  RunEvent old = Of(6, "old", 1);
  old.kind = kEventRecovered;
  old.lost = Duration{5};
  history.Merge({old}, {9});
  const auto counted = history.totals();
  EXPECT_TRUE(history.Merge({old}, {9}).empty());
  EXPECT_EQ(history.totals(), counted);
  EXPECT_EQ(history.events().size(), History::kMostEvents);
}

TEST(History, IsBoundedByNumberAndSize) {
  History many;
  for (std::size_t i = 0; i < History::kMostEvents + 5; ++i) {
    many.Append(Of(7, "x"));
  }
  EXPECT_EQ(many.events().size(), History::kMostEvents);
  EXPECT_EQ(many.events().front().number, 6u);
  EXPECT_EQ(many.newest().number, History::kMostEvents + 5);
  History large;
  std::vector<RunEvent> kept;
  for (std::uint64_t i = 1; i <= 300; ++i) {
    large.Append(Of(7, std::string(4'096, 'x')));
    kept.push_back(Of(6, std::string(4'096, 'y'), i));
  }
  EXPECT_LE(large.bytes(), History::kMostBytes);
  large.Merge(kept, {7});
  EXPECT_LE(large.bytes(), History::kMostBytes);
  EXPECT_EQ(large.newest(), (EventMark{{7}, 300}));
}

}  // namespace
}  // namespace ddprun
