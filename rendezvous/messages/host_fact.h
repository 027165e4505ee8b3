// A fact about a node's machine, for people: "gpu3" "has fallen off the bus", bad.
//
// Values. The reason to refuse a node travels apart, as its `unfit`; nothing is decided by a fact.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ddprun {

struct HostFact {
  std::string name;  // Its subject in one word: "gpu3", "disk.run".
  std::string value;
  bool bad = false;  // It needs attention.
  bool operator==(const HostFact&) const = default;
};
using HostFacts = std::vector<HostFact>;

// The server's wall clock less this node's, which is as far off as the call's way at most.
struct ClockOffset {
  std::int64_t microseconds = 0;
  std::int64_t within = 0;
  bool operator==(const ClockOffset&) const = default;
};

// From four moments in microseconds: a report sent, received; its answer sent, received. None: they
// cannot be, as where a clock was set meanwhile.
std::optional<ClockOffset> OffsetOf(std::int64_t sent, std::int64_t received, std::int64_t answered,
                                    std::int64_t heard);

}  // namespace ddprun
