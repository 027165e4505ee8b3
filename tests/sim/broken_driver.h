// Rules of the coordinator's driver that can be switched off: none in ddprun_sim, which has the
// driver as it is; those of break_driver.py in ddprun_sim_broken.
#pragma once

#include <set>
#include <string>

namespace ddprun::sim {

const std::set<std::string>& RulesOfDriver();

// From here on the driver goes without this rule; empty: it has all.
void BreakDriver(const std::string& rule);

}  // namespace ddprun::sim
