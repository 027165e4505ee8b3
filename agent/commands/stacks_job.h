// The errand of `ddprun stacks` on this node: where its workers stand now.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "agent/commands/errand_job.h"
#include "common/loop.h"
#include "rendezvous/messages/errand_records.h"

namespace ddprun {

// Takes them; the end comes once, on the loop, later. What is returned is called by who wants them
// no more; empty: it is too late for that.
using TakeStacksOf = std::function<std::function<void()>(
    const ErrandWish&, std::function<void(std::vector<ErrandRecord>)>)>;

std::unique_ptr<ErrandJob> MakeStacksJob(Loop& loop, const TakeStacksOf& take,
                                         const ErrandWish& wish);

}  // namespace ddprun
