// The process group's own collectives on plain bytes, and its send and receive as a Wire. With NCCL
// the bytes are copied to the GPU and back around each.
//
// Torch-free to its callers. Kinds of errors as of the process group: kUnavailable, a peer is gone;
// kSystem, the library cannot do this (said on every rank before anything is sent).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "common/result.h"
#include "trainer/group/combine.h"
#include "trainer/group/process_group.h"
#include "trainer/group/reference_collectives.h"

namespace ddprun {

class TorchCollectives {
 public:
  // Of two ranks or more.
  explicit TorchCollectives(ProcessGroup& group) : group_(group) {}

  Result<void> Barrier();
  Result<void> Broadcast(std::span<std::byte> data, std::size_t root);
  Result<void> AllReduce(const Reduction& reduction, std::span<std::byte> data);
  // On other ranks than the root `data` may hold anything afterwards.
  Result<void> Reduce(const Reduction& reduction, std::span<std::byte> data, std::size_t root);
  // `all` is one share per rank, in rank order; of scatter and gather the root's alone counts.
  Result<void> Scatter(std::span<std::byte> all, std::span<std::byte> own, std::size_t root);
  Result<void> Gather(std::span<std::byte> own, std::span<std::byte> all, std::size_t root);
  Result<void> AllGather(std::span<std::byte> own, std::span<std::byte> all);
  Result<void> ReduceScatter(const Reduction& reduction, std::span<std::byte> all,
                             std::span<std::byte> own);
  Result<void> AllToAll(std::span<std::byte> in, std::span<std::byte> out);

  // How long the last one took between GPUs, without those copies. None: not between GPUs.
  std::optional<double> Seconds() const;

  // Adds to a number in the generation's store; the sum so far.
  Result<std::int64_t> Count(const std::string& name, std::int64_t more);

 private:
  ProcessGroup& group_;
};

std::unique_ptr<Wire> TorchWire(ProcessGroup& group);

}  // namespace ddprun
