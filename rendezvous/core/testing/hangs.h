// Two nodes with two workers each, and how these stand: for tests of who hangs.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "rendezvous/core/hang.h"
#include "rendezvous/core/testing/scenario.h"
#include "rendezvous/messages/describe.h"

namespace ddprun {

inline ProgressGroup Late(std::uint32_t rank, std::uint64_t step, const std::string& phase = "",
                          std::uint32_t count = 1) {
  return {step, phase, rank, count, count, 30s};
}

inline ProgressGroup InTime(std::uint32_t rank, std::uint64_t step, const std::string& phase = "") {
  return {step, phase, rank, 1, 0, Duration{0}};
}

// Ranks 0-1 and 2-3.
struct Hangs : testing::Test {
  Scenario scenario;
  RunSpec spec{.min_nodes = 2, .max_nodes = 2, .max_restarts = 1};
  Node a{scenario, "n0", spec};
  Node b{scenario, "n1", spec};

  void SetUp() override {
    a.report.workers = b.report.workers = 2;
    FormWorld(At(0s), a, b);
    ASSERT_EQ(scenario.state.phase, Phase::kRunning);
  }
  static void Stand(Node& node, std::vector<ProgressGroup> groups, Time now) {
    node.report.hung_rank.reset();
    for (const ProgressGroup& group : groups) {
      if (group.late > 0 && !node.report.hung_rank) {
        node.report.hung_rank = group.first_rank;
      }
    }
    node.report.progress_groups = std::move(groups);
    node.Hears(now).Says(now);
  }
  // As they have stood for 30 s by `now`, as far as the furthest of them.
  void StandInTime(Node& node, std::vector<ProgressGroup> groups, Time now) {
    for (ProgressGroup& group : groups) {
      group.late = 0;
    }
    Stand(node, std::move(groups), now);
  }
  // Both report, so that what is judged is fresh.
  void Stand(std::vector<ProgressGroup> of_a, std::vector<ProgressGroup> of_b, Time now = At(31s)) {
    StandInTime(a, of_a, now - 30s);
    StandInTime(b, of_b, now - 30s);
    Stand(a, of_a, now);
    Stand(b, std::move(of_b), now);
    if (scenario.state.phase == Phase::kRunning) {
      Stand(a, std::move(of_a), now);
    }
  }
  std::string Why() {
    return scenario.state.drain && scenario.state.drain->hang
               ? Describe(*scenario.state.drain->hang)
               : "";
  }
};

}  // namespace ddprun
