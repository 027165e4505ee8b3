// Decides which directories in a checkpoint directory are checkpoints that no record can ever name:
// written and renamed by a world that was killed, or replaced, before it could commit them.
//
// Pure. Never takes files of a world of which the log knows nothing (any more), since they may have
// been committed; nor files that a record names, of whatever lineage.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "trainer/checkpoint/fence_record.h"

namespace ddprun {

// `names`: of the directory, read after `claim` was written. `before`: FenceLog::Before(claim).
// Only worlds with a record before the claim count: they can commit no more.
std::set<std::string> Orphans(const std::vector<std::string>& names, const FenceRecord& claim,
                              const std::vector<FenceRecord>& before);

}  // namespace ddprun
