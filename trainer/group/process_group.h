// The ranks of one generation and what they do together: a process group formed over the
// generation's store, through shared memory where all ranks are on one node, else through Gloo.
// Nodes of several ranks each sum in shared memory first ("nodes").
//
// Chosen for the whole world, by all ranks alike. Ranks that compute on GPUs have NCCL as well, for
// tensors on GPUs: all must, and each on its own GPU (kInvalid). Sums through shared memory are
// formed in rank order, so that they are the same in every run; Gloo's and those of nodes are too,
// in another order: with three ranks or more they differ in rounding.
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

class ProcessGroup {
 public:
  static Result<std::unique_ptr<ProcessGroup>> Join(const WorkerEnv& env,
                                                    const GroupOptions& options);
  ~ProcessGroup();

  std::uint32_t rank() const { return rank_; }
  std::uint32_t size() const { return size_; }

  // The carrier of gradients: "shm", "nodes", "gloo" or "nccl", which decides how sums are rounded;
  // "none" in a group of one, unless NCCL was asked for by name.
  const std::string& backend() const { return backend_; }
  // Which and why, for the log.
  const std::string& note() const { return note_; }

  // One rank's text on every rank.
  Result<std::string> BroadcastText(std::string text, std::uint32_t from = 0);
  // Every element becomes its sum over the ranks.
  Result<void> Sum(std::span<double> values);

  // When this rank has begun its first all-reduce of tensors since the last call; nullopt: none.
  // Called where they are begun: not while one of another thread may.
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
