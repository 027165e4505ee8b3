// For the tests of the node agent: one agent, and what happens to it, one line per event.
#pragma once

#include <gtest/gtest.h>

#include "agent/core/node_agent.h"

namespace ddprun {

using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;

inline constexpr int kInt = 2, kUsr1 = 10, kTerm = 15;

inline Time At(Duration since_start) {
  return Time{std::chrono::seconds(1'000) + since_start};
}

// One agent; each line of a test is something that happens to it.
struct Agent : testing::Test {
  AgentConfig config{{.run_id = "run",
                      .node = "n0",
                      .host = "n0",
                      .spec = {.min_nodes = 1, .max_nodes = 2},
                      .workers = 2},
                     "s:1"};
  AgentState state;
  std::vector<AgentEffect> effects;  // Of the last event.

  void SetUp() override { Feed(Started{{11}, {"n0", 1}}, 0s); }
  void Feed(const AgentEvent& event, Duration when) {
    effects = Step(state, config, event, At(when));
  }
  void Told(const Directive& directive, Duration when, std::uint64_t term = 1) {
    Feed(Replied{state.sequence, {directive, 5, 3s, 1s, {term}}, {99}}, when);
  }
  void TellRun(std::uint64_t generation, Duration when) { Told(RunOf(generation), when); }
  void TellStop(std::uint64_t generation, StopCause cause, Duration when) {
    Told(Stop{{generation}, {generation}, cause}, when);
  }
  void Speak(std::uint32_t local_rank, WorkerSpoke spoke, Duration when) {
    spoke.local_rank = local_rank;
    Feed(spoke, when);
  }
  void Ends(std::uint32_t local_rank, ExitStatus status, Duration when) {
    Feed(WorkerEnded{state.placement->generation, local_rank, 100 + local_rank, status}, when);
  }
  void Gone(Duration when) { Feed(AllGone{state.placement->generation, {"n0", 2}}, when); }
  // And nothing of them is left.
  void BothEnd(ExitStatus first, ExitStatus second, Duration when) {
    Ends(0, first, when);
    Ends(1, second, when);
    Gone(when);
  }
  static ddprun::Run RunOf(std::uint64_t generation) {
    return ddprun::Run{{.term = {1},
                        .generation = {generation},
                        .world_id = {generation},
                        .first_rank = 4,
                        .world_size = 8}};
  }
  template <class E>
  const E* Find() const {
    for (const AgentEffect& effect : effects) {
      if (const E* const found = std::get_if<E>(&effect)) {
        return found;
      }
    }
    return nullptr;
  }
  template <class E>
  bool Did() const {
    return Find<E>() != nullptr;
  }
};

// It hosts generation 1 since second 1.
struct RunningAgent : Agent {
  void SetUp() override {
    Agent::SetUp();
    TellRun(1, 1s);
  }
};

}  // namespace ddprun
