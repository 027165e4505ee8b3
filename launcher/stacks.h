// `ddprun stacks PID`: where every thread of a process and of its descendants stands.
//
// What the agent runs on hung workers before it kills them; of use by hand too.
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
  std::string also;        // Appended to this file too, if it exists.
};

// To stdout. 0, or 1 if a process is not there.
int PrintStacks(const StacksRequest& request);

}  // namespace ddprun
