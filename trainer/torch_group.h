// The process group as libtorch sees it, and the one place that judges its exceptions.
#pragma once

#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "common/result.h"

namespace ddprun {

struct TorchGroup {
  c10::intrusive_ptr<c10d::ProcessGroup> group;
};

// The exception being handled, as "rank R cannot DOING: ...". What the transport threw means that
// a peer is gone (kUnavailable); everything else is our own trouble (kSystem).
Error ErrorOfCurrentException(std::uint32_t rank, const std::string& doing);

}  // namespace ddprun
