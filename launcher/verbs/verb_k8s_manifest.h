// The command line of `ddprun k8s-manifest`.
#pragma once

#include <string>
#include <vector>

#include "common/result.h"

namespace ddprun {

// The manifest, or the help. kInvalid: everything that is wrong with the line.
Result<std::string> ParseK8sManifest(const std::vector<std::string>& args);

}  // namespace ddprun
