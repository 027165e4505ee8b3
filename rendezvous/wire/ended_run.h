// How a claim has a run that has ended, as bytes.
#pragma once

#include <string>

#include "common/result.h"
#include "rendezvous/core/ended_run.h"

namespace ddprun {

std::string Encode(const EndedRun& run);
Result<EndedRun> DecodeEndedRun(const std::string& bytes);

}  // namespace ddprun
