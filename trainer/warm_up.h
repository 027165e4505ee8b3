// What a template of workers (proto/template_process.h) does before it forks them: one step of the
// model that the command line names, on samples of zeros, so that everything a first step makes is
// made. On one thread, on the CPU, without files or peers, and without a word of its outcome.
#pragma once

#include "trainer/options/config.h"

namespace ddprun {

void WarmUp(const TrainConfig& config);

}  // namespace ddprun
