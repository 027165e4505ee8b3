#include "tests/sim/rules.h"

namespace ddprun::sim {
namespace {

std::string& Switched() {
  static std::string rule;
  return rule;
}

std::set<std::string>& Known() {
  static std::set<std::string> rules = {
      // Of the coordinator's and the agent's core.
      "disconnect-grace", "fence-kill", "fence-wait", "floors", "judging-at-the-end", "late-ticks",
      "newest-reply", "newest-report", "outcome-kept-first", "recovered-not-charged",
      "recovery-lease", "several-at-once", "successor-grace",
      // Of who serves.
      "exclusion", "lenience", "silence", "standstill", "step-down",
      // Of checkpoints.
      "claim-order", "commit-mine", "lineage", "one-writer-a-number", "reread", "sync"};
  return rules;
}

}  // namespace

void SwitchOff(const std::string& rule) {
  Switched() = rule;
}

bool Without(std::string_view rule) {
  return Switched() == rule;
}

const std::set<std::string>& Rules() {
  return Known();
}

bool AddRules(std::initializer_list<const char*> names) {
  Known().insert(names.begin(), names.end());
  return true;
}

}  // namespace ddprun::sim
