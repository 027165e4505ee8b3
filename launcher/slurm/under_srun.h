// ddprun in a Slurm job of several nodes, but outside of a step: a batch script, or salloc's shell,
// where the user forgot srun. Becomes the srun that was meant.
#pragma once

#include "launcher/command_line/config.h"

namespace ddprun {

// Returns only when it does not: the exit code for --dry-run and --no-auto-srun, and for an srun
// that is not there. The step finds a token in its environment, unless the user gave another proof.
int StartUnderSrun(const LaunchConfig& config);

}  // namespace ddprun
