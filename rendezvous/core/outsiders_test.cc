// The effects of an unknown node on a run: take part, or go.
#include <gtest/gtest.h>

#include <type_traits>

#include "rendezvous/core/testing/pair.h"
#include "rendezvous/messages/describe.h"

namespace ddprun {
namespace {

struct Outsiders : PairOfNodes {
  Node outsider{scenario, "n9", kTwo};
};

TEST_F(Outsiders, OnesInterruptEndsItsOwnPartAlone) {
  Form();
  outsider.report.leaving = Leaving::kStopRun;
  outsider.Says(At(1s));
  EXPECT_EQ(scenario.state.phase, Phase::kRunning);
  EXPECT_EQ(std::get<Finish>(outsider.Told(At(1s))).ending, Ending::kLeft);
}

// A node that names itself as a member does not become that one.
TEST_F(Outsiders, AMembersNameDoesNotStopTheRun) {
  Form();
  Node other(scenario, "n0", kTwo, 77);
  other.report.leaving = Leaving::kStopRun;
  other.Says(At(1s));
  EXPECT_EQ(scenario.state.phase, Phase::kRunning);
}

TEST_F(Outsiders, ANodeThatDidNotWaitForTheFirstWorldDoesNotStopTheRun) {
  a.Says(At(0s));
  outsider.report.leaving = Leaving::kStopRun;
  outsider.Says(At(1s));
  EXPECT_EQ(scenario.state.phase, Phase::kGathering);
  EXPECT_EQ(std::get<Finish>(outsider.Told(At(1s))).ending, Ending::kLeft);
}

TEST_F(Outsiders, BetweenTwoWorldsTheLastOnesNodesStopTheRun) {
  Form();
  b.report.leaving = Leaving::kLeave;
  b.Ends(Outcome::kStopped, {}, At(1s));
  a.Ends(Outcome::kStopped, {}, At(1s));
  ASSERT_EQ(scenario.state.phase, Phase::kGathering);
  outsider.report.leaving = Leaving::kStopRun;
  outsider.Says(At(2s));
  EXPECT_EQ(scenario.state.phase, Phase::kGathering);
  a.report.leaving = Leaving::kStopRun;
  a.Says(At(2s));
  EXPECT_EQ(std::get<Finish>(a.Told(At(2s))).exit_code, 130);
}

// Its agent has joined anew after it was cut off.
TEST_F(Outsiders, ANodeThatTakesALostOnesPlaceStopsTheRun) {
  Form();
  a.Hears(At(2s)).Says(At(2s));
  scenario.Pass(At(4s));
  a.Ends(Outcome::kStopped, {}, At(4s));
  ASSERT_EQ(scenario.state.phase, Phase::kGathering);
  Node anew(scenario, "n1", kTwo, 2);
  anew.report.leaving = Leaving::kStopRun;
  anew.Says(At(5s));
  EXPECT_EQ(scenario.state.phase, Phase::kFailed);
}

void Change(bool& value) {
  value = !value;
}
void Change(std::uint32_t& value) {
  ++value;
}
void Change(Duration& value) {
  value += 1s;
}

// Each row of kSpecFields.
TEST(OptionsOfARun, NodesThatDifferAreRefusedOrUseTheFirstNodes) {
  ForEach(kSpecFields, [](const auto& field) {
    constexpr RunSpec kSpec{.min_nodes = 2, .max_nodes = 4};
    RunSpec other = kSpec;
    Change(other.*field.member);
    Scenario scenario;
    Node first(scenario, "n0", kSpec);
    Node second(scenario, "n1", other);
    first.Says(At(0s));
    second.Says(At(0s));
    const Directive answer = second.Told(At(0s));
    const Finish* const refusal = std::get_if<Finish>(&answer);
    EXPECT_EQ(refusal != nullptr, field.mismatch != Mismatch::kUseFirst) << field.name;
    if (refusal != nullptr) {
      using Value = std::remove_cvref_t<decltype(other.*field.member)>;
      EXPECT_FALSE((std::is_same_v<Value, bool>)) << field.name << ": 0 is no word of a switch";
      EXPECT_EQ(refusal->ending, Ending::kRefused) << field.name;
      EXPECT_EQ(refusal->exit_code, 2) << field.name;
      EXPECT_NE(refusal->text.find(Describe(other)), std::string::npos) << refusal->text;
      EXPECT_NE(Describe(other), Describe(kSpec)) << field.name;
    }
    EXPECT_EQ(*scenario.state.spec, kSpec) << field.name;
  });
}

}  // namespace
}  // namespace ddprun
