// The facts that ddprun finds about this machine, as text: `ddprun env`. For reports of faults, and
// to see what a node of a cluster is like. Loads no library, opens no device and no port; values of
// secrets are not shown.
#pragma once

#include <string>

namespace ddprun {

std::string EnvironmentReport();

}  // namespace ddprun
