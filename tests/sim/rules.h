// Rules that can be switched off, one at a time, to show what each is needed for.
//
// Those of cores, processes and checkpoints are broken from outside, where a simulation asks
// Without(). Those of drivers are places in their text, and known to ddprun_sim_broken alone.
#pragma once

#include <initializer_list>
#include <set>
#include <string>
#include <string_view>

namespace ddprun::sim {

// From here on histories go without this rule; empty: they have all.
void SwitchOff(const std::string& rule);
bool Without(std::string_view rule);

const std::set<std::string>& Rules();
// Those of break_driver.py, before main.
bool AddRules(std::initializer_list<const char*> names);

}  // namespace ddprun::sim
