// From which addresses a world's workers may come to its store.
#include "rendezvous/core/peers.h"

#include <gtest/gtest.h>

#include "rendezvous/core/testing/scenario.h"

namespace ddprun {
namespace {

struct Peers : testing::Test {
  Scenario scenario;
  const RunSpec spec{.min_nodes = 2, .max_nodes = 2};
  Node first{scenario, "n0", spec};
  Node second{scenario, "n1", spec};

  // A world of both, with the directive to run.
  void Form(const std::string& of_first, const std::string& of_second,
            const std::string& seen_at = "") {
    first.report.addresses = of_first;
    second.report.addresses = of_second;
    second.report.seen_at = seen_at;
    first.Says(At(0s));
    second.Says(At(0s));
    ASSERT_EQ(scenario.state.phase, Phase::kRunning);
  }
  std::string For(const Node& node) { return StorePeers(scenario.state, node.Told(At(0s))); }
};

TEST_F(Peers, TheFirstNodeHearsOfAll) {
  Form("10.0.0.1", "10.0.0.2,fd00::2", "192.168.0.9");
  EXPECT_EQ(For(first), "10.0.0.1,10.0.0.2,fd00::2,192.168.0.9");
  EXPECT_EQ(For(second), "");
}

// It would be locked out.
TEST_F(Peers, NothingWhereOneNodeHasNotReported) {
  Form("10.0.0.1", "", "10.0.0.2");
  EXPECT_EQ(For(first), "");
}

TEST_F(Peers, NothingBesideOtherDirectives) {
  Form("10.0.0.1", "10.0.0.2");
  EXPECT_EQ(StorePeers(scenario.state, Wait{}), "");
  EXPECT_EQ(StorePeers(CoordinatorState{}, first.Told(At(0s))), "");
  auto other = std::get<ddprun::Run>(first.Told(At(0s)));
  ++other.placement.world_id.value;
  EXPECT_EQ(StorePeers(scenario.state, other), "");
}

TEST_F(Peers, NothingThatIsTooMuchForAMessage) {
  Form("10.0.0.1", std::string(kMaxPeersBytes, '1'));
  EXPECT_EQ(For(first), "");
}

}  // namespace
}  // namespace ddprun
