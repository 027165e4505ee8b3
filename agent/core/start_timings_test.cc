#include "agent/core/start_timings.h"

#include <gtest/gtest.h>

#include "agent/core/report.h"
#include "agent/core/scenario_testing.h"

namespace ddprun {
namespace {

struct AgentPace : RunningAgent {
  StartTimings Told() const { return ReportOf(state, config).start_timings; }
};

TEST_F(AgentPace, CountsFromTheDirectiveToItsLastWorker) {
  Feed(WorkersStarted{{1}}, 1s + 20ms);
  EXPECT_EQ(Told(), (StartTimings{{}, 20ms, {}, {}}));
  Speak(0, {.step = 700, .resume = 700}, 1s + 24ms);
  Speak(1, {.step = 700, .resume = 700}, 1s + 25ms);
  EXPECT_EQ(Told(), (StartTimings{{}, 20ms, 25ms, {}}));
  Speak(1, {.step = 701}, 1s + 50ms);
  Speak(0, {.step = 701}, 1s + 52ms);
  EXPECT_EQ(Told(), (StartTimings{{}, 20ms, 25ms, 52ms}));
  Speak(0, {.step = 702}, 2s);
  EXPECT_EQ(Told(), (StartTimings{{}, 20ms, 25ms, 52ms}));
}

// A program that reports none: the first step that is seen ends its start, of whatever rank.
TEST_F(AgentPace, AFirstStepMayBePrintedOrACollective) {
  Speak(1, {.collectives = 0, .still = 10ms}, 1s + 30ms);
  Speak(0, {.printed = 0}, 1s + 30ms);
  EXPECT_EQ(Told(), StartTimings{});
  Speak(1, {.collectives = 3}, 1s + 40ms);
  EXPECT_EQ(Told(), (StartTimings{{}, {}, {}, 40ms}));
  Speak(0, {.step = 1}, 1s + 60ms);
  TellStop(1, StopCause::kNodeLost, 2s);
  Gone(2s);
  TellRun(2, 3s);
  Speak(1, {.printed = 1}, 3s + 40ms);
  EXPECT_EQ(Told(), StartTimings{}) << "its own word is known to come";
  Speak(0, {.step = 1}, 3s + 50ms);
  Speak(1, {.step = 1}, 3s + 60ms);
  EXPECT_EQ(Told(), (StartTimings{{}, {}, {}, 60ms}));
}

// It travels with the next report.
TEST_F(AgentPace, IsNoReasonToSpeak) {
  Feed(WorkersStarted{{1}}, 1s + 20ms);
  EXPECT_FALSE(Did<SendReport>());
  Speak(0, {.resume = 700}, 1s + 24ms);
  EXPECT_FALSE(Did<SendReport>());
}

TEST_F(AgentPace, BadNewsSayHowLongTheyWereHeld) {
  Feed(WorkerEnded{.generation = {1}, .pid = 100, .status = Killed{9}, .noticed = At(2s)},
       2s + 3ms);
  ASSERT_TRUE(Did<SendReport>());
  EXPECT_EQ(Find<SendReport>()->report.start_timings.detect, 3ms);
  Ends(1, Killed{15}, 3s);
  EXPECT_EQ(Told().detect, 3ms);
}

TEST_F(AgentPace, TheNextGenerationBeginsAnew) {
  Feed(WorkersStarted{{1}}, 1s + 20ms);
  TellStop(1, StopCause::kNodeLost, 2s);
  Gone(2s);
  TellRun(2, 3s);
  Feed(WorkersStarted{{1}}, 3s);  // The last one's.
  EXPECT_EQ(Told(), StartTimings{});
}

}  // namespace
}  // namespace ddprun
