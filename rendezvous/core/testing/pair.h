// For the tests of the coordinator: two nodes, and the world of both.
#pragma once

#include <gtest/gtest.h>

#include <optional>

#include "rendezvous/core/testing/scenario.h"

namespace ddprun {
inline constexpr RunSpec kTwo{.min_nodes = 2, .max_nodes = 2, .max_restarts = 1};

struct PairOfNodes : testing::Test {
  Scenario scenario;
  Node a{scenario, "n0", kTwo};
  Node b{scenario, "n1", kTwo};

  // They host generation 1.
  void Form() {
    FormWorld(At(Duration{0}), a, b);
    ASSERT_EQ(scenario.state.phase, Phase::kRunning);
  }
};

}  // namespace ddprun
