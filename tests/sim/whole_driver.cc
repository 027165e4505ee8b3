// ddprun_sim's drivers are the product's.
#include "tests/sim/broken_driver.h"

namespace ddprun::sim {

const std::set<std::string>& RulesOfDriver() {
  static const std::set<std::string> none;
  return none;
}

void BreakDriver(const std::string& /*rule*/) {}

}  // namespace ddprun::sim
