// The process group as libtorch sees it, and the one place that judges its exceptions.
#pragma once

#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "common/result.h"

namespace ddprun {

struct TorchGroup {
  TorchGroup() = default;
  ~TorchGroup();  // Only once all ranks are done, see ProcessGroup.
  TorchGroup(const TorchGroup&) = delete;
  TorchGroup& operator=(const TorchGroup&) = delete;

  c10::intrusive_ptr<c10d::ProcessGroup> group;
  std::string backend;
  std::string note;
  c10::intrusive_ptr<c10d::Backend> nccl;  // Null where tensors lie on the CPU.
  at::Device device = at::kCPU;            // Of what `nccl` carries.
  double seconds = 0;                      // Of the last collective of comm/library there.
};

// The exception being handled, in words. What the transport threw means that a peer is gone
// (kUnavailable); everything else is our own trouble (kSystem).
Error DescribeCurrentException();

// The same for a collective: "a peer of rank R is gone: cannot DOING: ...".
Error CollectiveError(std::uint32_t rank, const std::string& doing);

}  // namespace ddprun
