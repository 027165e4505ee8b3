// The request of `ddprun stacks` on this node: where its workers stand now.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "agent/commands/request_job.h"
#include "common/loop.h"
#include "rendezvous/messages/answer_records.h"

namespace ddprun {

// Takes them; the end comes once, on the loop, later. A caller that wants them no more calls the
// returned function; empty: it is too late for that.
using TakeStacksOf = std::function<std::function<void()>(
    const RequestSpec&, std::function<void(std::vector<AnswerRecord>)>)>;

std::unique_ptr<RequestJob> MakeStacksJob(Loop& loop, const TakeStacksOf& take,
                                          const RequestSpec& spec);

}  // namespace ddprun
