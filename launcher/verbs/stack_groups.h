// Which ranks stand at the same place: from what `ddprun stacks` printed of each.
//
// Pure. Compares the names of the main thread's functions (py-spy's or gdb's), without addresses,
// arguments and lines; if no tool found any, the kernel's words. Anything may be in the text.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ddprun {

struct StackText {
  std::uint32_t rank = 0;
  std::string node;
  std::string text;
};

struct StackGroup {
  std::vector<std::uint32_t> ranks;  // In order.
  // Innermost first; of a thread that the kernel alone knows, its words.
  std::vector<std::string> frames;
  std::vector<std::string> places;  // Of the first rank: "name (file:line)" of each frame.
  std::string headline;             // "read < next < main".
  std::string node = {};            // Of all of them; empty: several nodes', or the run has one.
};

// The largest first; of equal ones that with the least rank.
std::vector<StackGroup> GroupStacks(const std::vector<StackText>& stacks);

}  // namespace ddprun
