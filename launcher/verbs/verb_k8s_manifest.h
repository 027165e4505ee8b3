// The command line of `ddprun k8s-manifest`.
#pragma once

#include <string>

#include "launcher/verbs/verb_line.h"

namespace ddprun {

// The manifest; empty where something is wrong with the line.
std::string ParseK8sManifest(VerbLine& line);

}  // namespace ddprun
