// A simulated machine's own check (--node-check), as its agent's driver sees it, and what is found
// out about the machine between two of them (--host-check).
//
// With a chance of its own, so that histories without checks stay what they were.
#pragma once

#include <functional>
#include <string>

#include "tests/sim/simulation.h"

namespace ddprun::sim {

class SimChecks {
 public:
  SimChecks(Simulation& simulation, std::uint64_t index)
      : simulation_(simulation),
        chance_(simulation.setup.checks.value_or(0) + index),
        facts_(~simulation.setup.checks.value_or(0) + index) {}

  bool any() const { return simulation_.setup.checks.has_value(); }
  // As the newest check of this process said; false before that.
  bool fit() const { return fit_ || !any(); }

  void NewProcess() { fit_ = false; }
  // No check passes any more.
  void Spoil() { spoilt_ = true; }
  // For longer than a last call, at times. A machine that is well again passes. `looked` hears of
  // facts: that the machine refuses to be used, or not; perhaps when workers run, or when all is
  // over. `later` brings either to the process, if that still lives.
  using Hear = std::function<void(std::string)>;
  void Begin(Hear verdict, Hear looked,
             const std::function<void(Duration, std::function<void()>)>& later) {
    if (facts_.Chance(0.3)) {
      const std::string why = facts_.Chance(0.5) ? "a device is gone" : "";
      later(facts_.Between(0ms, 60s), [why, looked = std::move(looked)] { looked(why); });
    }
    fit_ = false;
    const Duration longest = chance_.Chance(0.3) ? 30s : 500ms;
    const bool fit = !chance_.Chance(simulation_.setup.conduct.unfit) && !spoilt_;
    later(chance_.Between(0ms, longest), [this, fit, verdict = std::move(verdict)] {
      fit_ = fit;
      verdict(fit ? "" : "a device is gone");
    });
  }

 private:
  Simulation& simulation_;
  Random chance_;
  Random facts_;
  bool fit_ = false;
  bool spoilt_ = false;
};

}  // namespace ddprun::sim
