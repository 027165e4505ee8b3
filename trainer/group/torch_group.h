// The process group as libtorch sees it, and the one place that judges its exceptions.
#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <type_traits>
#include <vector>

#include "common/result.h"
#include "trainer/group/shared_world.h"

namespace ddprun {

// Remembers when this rank has begun its first all-reduce since it was asked.
class WatchedGroup final : public c10d::ProcessGroup {
 public:
  using c10d::ProcessGroup::ProcessGroup;

  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>& tensors,
                                           const c10d::AllreduceOptions& options) override {
    Enter();
    return c10d::ProcessGroup::allreduce(tensors, options);
  }

  void Enter() {
    if (!entered) {
      entered = std::chrono::steady_clock::now();
    }
  }

  std::optional<std::chrono::steady_clock::time_point> entered;
};

struct TorchGroup {
  TorchGroup() = default;
  ~TorchGroup();  // Only once all ranks are done, see ProcessGroup.
  TorchGroup(const TorchGroup&) = delete;
  TorchGroup& operator=(const TorchGroup&) = delete;

  c10::intrusive_ptr<WatchedGroup> group;
  // This node's ranks. Null: not all nodes' ranks share memory, or it is not asked.
  std::shared_ptr<SharedWorld> shared;
  SharedWorld::Across across;  // None where there is one node.
  std::string backend;
  std::string note;
  c10::intrusive_ptr<c10d::Backend> nccl;  // Null where tensors lie on the CPU.
  at::Device device = at::kCPU;            // Of what `nccl` carries.
};

// The tensors of the rank `from` on all ranks, in place. Throws what the transport throws.
void Broadcast(TorchGroup& torch, const std::vector<at::Tensor>& tensors, std::uint32_t from = 0);

// The exception being handled, in words. An exception of the transport means that a peer is gone
// (kUnavailable); everything else is our own trouble (kSystem).
Error DescribeCurrentException();

// The reverse: an exception that DescribeCurrentException takes for an error of this kind.
std::exception_ptr ExceptionFor(const Error& error);

// The same for a collective: "a peer of rank R is gone: cannot DOING: ...".
Error CollectiveError(std::uint32_t rank, std::string_view doing);
// The result of `work`, or CollectiveError where it throws.
template <class Work>
std::invoke_result_t<Work> Collectively(std::uint32_t rank, std::string_view doing, Work work) {
  try {
    return work();
  } catch (const std::exception&) {
    return CollectiveError(rank, doing);
  }
}

}  // namespace ddprun
