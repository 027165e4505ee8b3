// The ranks of one generation and what they do together: a process group formed over the
// generation's store, through shared memory where all ranks are on one node, else through Gloo.
// Nodes of several ranks each sum in shared memory first ("nodes").
//
// All ranks choose the same way. Ranks that compute on GPUs also have NCCL, for tensors on GPUs.
// Then every rank must, each on a GPU of its own, or Join fails with kInvalid. A sum is the same in
// every run, because each way adds in a fixed order. The orders of the ways differ, and so do their
// sums in rounding, with three ranks or more.
//
// A process without peers has a group of one that needs no store. A collective that fails is
// ErrorKind::kUnavailable: a peer is gone, or silent for longer than the timeout. The group cannot
// be used after that, not even destroyed in bounded time: end the process with _exit.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "common/result.h"
#include "proto/worker_env.h"
#include "trainer/group/group_options.h"

namespace ddprun {

struct TorchGroup;

// The first of the network interfaces that GLOO_SOCKET_IFNAME may list, as for PyTorch; empty: it
// is not set.
std::string GlooInterface();

class ProcessGroup {
 public:
  static Result<std::unique_ptr<ProcessGroup>> Join(const WorkerEnv& env,
                                                    const GroupOptions& options);
  ~ProcessGroup();

  std::uint32_t rank() const { return rank_; }
  std::uint32_t size() const { return size_; }

  // The way of gradients, which decides how sums are rounded: "shm", "nodes", "gloo" or "nccl";
  // "none" in a group of one, unless NCCL was requested by name.
  const std::string& backend() const { return backend_; }
  // The backend and the reason for it, for the log.
  const std::string& note() const { return note_; }

  // Returns the text of rank `from` on every rank.
  Result<std::string> BroadcastText(std::string text, std::uint32_t from = 0);
  // Every element becomes its sum over the ranks.
  Result<void> Sum(std::span<double> values);

  // These go through the store, so that they disturb no collective that other ranks are in. Counts
  // this rank; whether all ranks have been counted, by now or within `limit`.
  Result<bool> Count(const std::string& what);
  Result<bool> AllCounted(const std::string& what, std::chrono::milliseconds limit);

  // When this rank began its first all-reduce of tensors since the last call; nullopt: none. Call
  // it on the thread that begins them.
  std::optional<std::chrono::steady_clock::time_point> TakeEntry();

  // For files that see libtorch; null where backend() is "none".
  TorchGroup* torch() { return torch_.get(); }

 private:
  ProcessGroup(std::uint32_t rank, std::uint32_t size, std::unique_ptr<TorchGroup> torch);

  std::string backend_ = "none";
  std::string note_;

  std::uint32_t rank_;
  std::uint32_t size_;
  std::unique_ptr<TorchGroup> torch_;
};

// NCCL's own thread gives up on a collective by an exception that cannot be caught: `end` is called
// there, and ends the process.
void EndWhenNcclGivesUp(void (*end)(const Error&));

}  // namespace ddprun
