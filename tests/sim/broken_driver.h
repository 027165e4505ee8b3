// Rules of the drivers that can be switched off: none in ddprun_sim, which has the drivers as they
// are; those of break_driver.py in ddprun_sim_broken.
#pragma once

#include <set>
#include <string>

namespace ddprun::sim {

const std::set<std::string>& RulesOfDriver();

// From here on they go without this rule; empty: they have all.
void BreakDriver(const std::string& rule);
const std::string& BrokenRule();

}  // namespace ddprun::sim
