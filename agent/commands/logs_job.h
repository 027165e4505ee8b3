// The request of `ddprun logs` on this node: the last output of its workers, from memory, then
// their new output; and the ends of the files that they write themselves.
#pragma once

#include <memory>

#include "agent/commands/request_job.h"
#include "agent/workers/kept_output.h"
#include "common/loop.h"

namespace ddprun {

std::unique_ptr<RequestJob> MakeLogsJob(Loop& loop, std::shared_ptr<KeptOutput> kept,
                                        const RequestSpec& spec);

}  // namespace ddprun
