// A node keeps what servers tell of a run's events, and tells the next one what that lacks.
#include <gtest/gtest.h>

#include "agent/core/report.h"
#include "agent/core/scenario_testing.h"

namespace ddprun {
namespace {

struct KeptEvents : Agent {
  static RunEvent Of(std::uint64_t term, std::uint64_t number) {
    RunEvent event;
    event.kind = kEventLost;
    event.term = {term};
    event.number = number;
    return event;
  }
  void Hears(std::uint64_t term, std::vector<RunEvent> events, EventMark kept, Duration when) {
    SyncReply reply{Wait{}, 5, 3s, 1s, {term}};
    reply.events = std::move(events);
    reply.events_kept = kept;
    Feed(Replied{state.sequence, reply, {99}}, when);
  }
};

TEST_F(KeptEvents, ANewServerGetsTheEventsItLacksUntilItSaysThatItHasThem) {
  Hears(7, {Of(7, 1), Of(7, 2)}, {}, 1s);
  EXPECT_TRUE(Find<SendReport>()->report.events.empty());  // They are that server's own.
  Hears(9, {Of(9, 1)}, {}, 2s);
  ASSERT_EQ(Find<SendReport>()->report.events.size(), 2u);
  EXPECT_EQ(Find<SendReport>()->report.events[0].mark(), (EventMark{{7}, 1}));
  EXPECT_EQ(Find<SendReport>()->report.events_seen, (EventMark{{9}, 1}));
  Hears(9, {}, {{7}, 1}, 3s);
  EXPECT_EQ(Find<SendReport>()->report.events.size(), 1u);
  Hears(9, {}, {{7}, 2}, 4s);
  EXPECT_TRUE(Find<SendReport>()->report.events.empty());
}

TEST_F(KeptEvents, NoServerSpeaksForALaterOne) {
  Hears(7, {Of(8, 1)}, {}, 1s);
  EXPECT_EQ(Find<SendReport>()->report.events_seen, EventMark{});
}

TEST_F(KeptEvents, AreSentAFewAtATime) {
  std::vector<RunEvent> many;
  for (std::uint64_t i = 1; i <= 100; ++i) {
    many.push_back(Of(7, i));
  }
  Hears(7, many, {}, 1s);
  Hears(9, {}, {}, 2s);
  EXPECT_EQ(Find<SendReport>()->report.events.size(), kMostEventsAtOnce);
  EXPECT_EQ(Find<SendReport>()->report.events[0].number, 1u);
}

}  // namespace
}  // namespace ddprun
