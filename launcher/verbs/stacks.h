// `ddprun stacks PID`: where every thread of a process and of its descendants stands.
//
// The command that the agent runs on hung workers before it kills them; of use by hand too.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/time.h"

namespace ddprun {

struct StacksRequest {
  std::vector<std::int64_t> pids;
  Duration limit{10'000};  // For all of them together.
  std::string title;       // The first line; empty: none.
  std::string into;        // This file, made anew with mode 0600; empty: stdout.
  std::string also;        // Appended to this file too, if it exists.
  bool live = false;       // Nothing may be left stopped: it is to continue.
  std::string notify;      // The first one's notify socket; empty: its environment says which.
  std::string recorder;    // Torch's record of its last collectives, made anew, mode 0600.
};

// 0; 1 if a process is not there or the file cannot be made; 3 where that is all, but of a Python
// nothing is known of its own frames.
int PrintStacks(const StacksRequest& request);

}  // namespace ddprun
