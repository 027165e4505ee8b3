// What is learned, as the parts of a training see it: state that is saved, sent to other ranks and
// given back, and what is known about the last steps. How a step is computed is another matter:
// model_learner.h for the models of ddprun-train, trainer/session/ for a program's own.
//
// Torch-free to its callers. An error of kind kUnavailable means that a peer is gone. After any
// error the learner cannot be used.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "common/result.h"
#include "trainer/checkpoint/snapshot_copier.h"
#include "trainer/learning/buckets.h"
#include "trainer/learning/score.h"

namespace ddprun {

// Memory of this process on its GPU, as libtorch's allocator counts it.
struct DeviceMemory {
  std::uint64_t bytes = 0;
  std::uint64_t peak = 0;
};

class Learner {
 public:
  Learner() = default;
  Learner(const Learner&) = delete;
  Learner& operator=(const Learner&) = delete;
  virtual ~Learner() = default;

  // Names, shapes and sizes: equal only for equal models.
  virtual std::string Describe() const = 0;

  // Parameters, buffers and optimizer state in the host's memory, which stays as long as the
  // learner lives. It is the memory in use, or copies that are valid from the view's wait() until
  // the next View.
  virtual SnapshotView View() const = 0;
  virtual std::uint64_t StateBytes() const = 0;  // The size of all of these.
  virtual Result<void> CopyFrom(const Snapshot& snapshot) = 0;

  // Sends the state of the rank `from` to all ranks; then steps can be taken. `buckets`: from the
  // checkpoint, so that a resumed run adds gradients in the same order as a run that did not stop;
  // empty: none yet.
  virtual Result<void> Start(const Buckets& buckets, std::uint32_t from) = 0;

  // `wait` is called in each step just before parameters and optimizer state change; between two
  // such calls they do not change (SnapshotCopier's contract). A forward changes buffers at any
  // time.
  virtual void BeforeUpdate(std::function<void()> wait) = 0;

  // How gradients are grouped and ordered; empty before the first step and in a group of one.
  virtual const Buckets& buckets() const = 0;

  // Whether the model has buffers. They differ from rank to rank; rank 0's are the ones that
  // matter.
  virtual bool HasBuffers() const = 0;
  // Before evaluations: sends rank 0's buffers to all ranks.
  virtual Result<void> ShareBuffers() = 0;

  // The score of this rank's samples since the last call. Waits for the GPU.
  virtual Result<Score> TakeScore() = 0;
  // The norm of all averaged gradients in the last step, before clipping: the same on every rank.
  // None: not asked for, or no step yet.
  virtual std::optional<double> GradientNorm() const { return std::nullopt; }
  // Of the next step, where the learner's program sets it; none: the training does.
  virtual std::optional<double> LearningRate() const { return std::nullopt; }
  // None: the model is in the host's memory.
  virtual std::optional<DeviceMemory> MemoryOnDevice() const = 0;
  // Whether steps are replayed from a recorded graph by now.
  virtual bool Replays() const { return false; }
  // The largest difference of a parameter's number here and on rank 0. All ranks must call it. 0
  // where gradients are always averaged.
  virtual Result<double> DistanceFromRankZero() { return 0.0; }
};

}  // namespace ddprun
