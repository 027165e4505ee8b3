// Work that may take as long as a disk, or longer than peers would wait: it runs on a thread, while
// this rank tells people and its launcher what it waits for.
//
// A stop does not wait for it for long (disk_wait.h) and gives an error. Then the work may run
// until the process ends, so it owns what it uses, except for the training.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "common/result.h"
#include "trainer/loop/training.h"

namespace ddprun {

struct BlockingTask {
  std::string what;                    // "the last checkpoint (step 40) is being saved in 'ckpt'"
  std::uint64_t bytes = 0;             // About how many are read or written.
  std::function<Result<void>()> work;  // Empty: only other ranks have work.
  bool on_disk = true;                 // False: the work computes, and messages say so.
  std::string waits_too;               // "to see whether ...": of work that also waits for that.
};

// Returns what came of the work.
Result<void> Await(Training& training, BlockingTask task);
// The same by all ranks together, of which one or more have work, so that peers do not consider a
// rank as gone. Lasts until all is done, or one has failed. Returns the result of the own work.
Result<void> AwaitTogether(Training& training, BlockingTask task);

}  // namespace ddprun
