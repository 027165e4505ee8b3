// Rules that can be switched off, one at a time, to show what each is needed for.
//
// They are places in the product's text (break_driver.py), and known to ddprun_sim_broken alone;
// but for the few that something simulated keeps, which asks Without().
#pragma once

#include <set>
#include <string>
#include <string_view>

namespace ddprun::sim {

inline std::set<std::string>& Rules() {
  static std::set<std::string> rules = {"exclusion", "one-writer-a-number", "reread", "sync"};
  return rules;
}

// The one that histories go without; empty: they have all.
inline std::string& SwitchedOff() {
  static std::string rule;
  return rule;
}
inline bool Without(std::string_view rule) {
  return SwitchedOff() == rule;
}

}  // namespace ddprun::sim
