// For the tests of Recovering.
#pragma once

#include <gtest/gtest.h>

#include "rendezvous/core/recovery.h"
#include "rendezvous/core/testing/pair.h"

namespace ddprun {
inline constexpr RunSpec kElastic{.min_nodes = 1, .max_nodes = 2, .max_restarts = 1};

// Two nodes that host generation 1 of a server with term 1, which then dies.
struct Recovering : PairOfNodes {
  void SetUp() override { Form(kTwo); }
  void Form(const RunSpec& spec) {
    scenario.state = {};
    scenario.state.run_id = "run";
    a.report.spec = b.report.spec = spec;
    a.report.term = b.report.term = {};
    FormWorld(At(Duration{0}), a, b);
    ASSERT_EQ(scenario.state.phase, Phase::kRunning);
  }
  void Restart() { scenario.Restart(); }
  // Both report, and no world known so far can continue: a newer one might be heard of yet.
  void HearUntilALeaseIsOver() {
    a.Says(At(Duration{5'000}));
    b.Says(At(Duration{5'000}));
    a.Hears(At(Duration{7'000})).Says(At(Duration{7'000}));
    b.Hears(At(Duration{7'000})).Says(At(Duration{7'000}));
    scenario.Pass(At(Duration{7'999}));
    EXPECT_EQ(scenario.state.phase, Phase::kRecovering);
    scenario.Pass(At(Duration{8'000}));
  }
};

}  // namespace ddprun
