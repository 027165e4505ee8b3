// For the tests of the coordinator: two nodes, and the world of both.
#pragma once

#include <gtest/gtest.h>

#include <optional>

#include "rendezvous/core/testing/invariants.h"
#include "rendezvous/core/testing/story.h"

namespace ddprun {

inline constexpr RunSpec kTwo{.min_nodes = 2, .max_nodes = 2, .max_restarts = 1};

struct PairOfNodes : testing::Test {
  Story story;
  Node a{story, "n0", kTwo};
  Node b{story, "n1", kTwo};

  // They host generation 1.
  void Form() {
    FormWorld(At(Duration{0}), a, b);
    ASSERT_EQ(story.state.phase, Phase::kRunning);
  }
  void TearDown() override {
    EXPECT_EQ(BrokenInvariant(story.state, story.config, At(Duration{0})), std::nullopt);
  }
};

}  // namespace ddprun
