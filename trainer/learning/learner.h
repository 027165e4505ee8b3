// The learned state, as the parts of a training see it: it is saved, sent to other ranks and
// restored. Also facts about the last steps. Other files compute a step: model_learner.h for the
// models of ddprun-train, trainer/session/ for a program's own.
//
// Torch-free to its callers. An error of kind kUnavailable means that a peer is gone. After any
// error the learner cannot be used.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/result.h"
#include "trainer/checkpoint/snapshot.h"
#include "trainer/learning/score.h"

namespace ddprun {

class ProcessGroup;
struct NamedTensor;

class Learner {
 public:
  // `apart`: the state is not in the host's memory, so a view copies it. The group must outlive
  // this.
  Learner(ProcessGroup& group, bool apart);
  Learner(const Learner&) = delete;
  Learner& operator=(const Learner&) = delete;
  virtual ~Learner();

  // The names, shapes and sizes of the state, as text that is equal only for equal models.
  std::string Describe() const;
  // The names of the parameters that are not trained, or "none": another resumed training has
  // another state of its optimizer.
  std::string Frozen() const;

  // Parameters, buffers and optimizer state in the host's memory, which stays as long as the
  // learner lives. It is the memory in use, or copies that are valid from the view's wait() until
  // the next View.
  SnapshotView View() const;
  std::uint64_t StateBytes() const;  // The size of the state.
  Result<void> CopyFrom(const Snapshot& snapshot);

  // Sends the state of the rank `from` to all ranks; then steps can be taken. `buckets`: from the
  // checkpoint, so that a resumed run adds gradients in the same order as a run that did not stop;
  // empty: none yet.
  virtual Result<void> Start(const Buckets& buckets, std::uint32_t from) = 0;

  // `wait` is called in each step just before parameters and optimizer state change; between two
  // such calls they do not change (SnapshotCopier's contract). A forward changes buffers at any
  // time.
  void BeforeUpdate(std::function<void()> wait) { before_update_ = std::move(wait); }

  // How gradients are grouped and ordered; empty before the first step and in a group of one.
  virtual const Buckets& buckets() const = 0;

  // Whether the model has buffers. They differ from rank to rank; rank 0's are the ones that
  // matter.
  bool HasBuffers() const;
  // Before evaluations: sends rank 0's buffers to all ranks.
  Result<void> ShareBuffers();

  // The score of this rank's samples since the last call. Waits for the GPU.
  virtual Result<Score> TakeScore() = 0;
  // The norm of all averaged gradients in the last step, before clipping: the same on every rank.
  // None: not asked for, or no step yet.
  virtual std::optional<double> GradientNorm() const { return std::nullopt; }
  // The learning rate of the next step, if the program sets it (NaN: it is not known); none: the
  // training sets it.
  virtual std::optional<double> LearningRate() const { return std::nullopt; }
  // Whether steps are replayed from a recorded graph by now.
  virtual bool Replays() const { return false; }
  // The largest difference of a parameter's number here and on rank 0. All ranks must call it. 0
  // where gradients are always averaged.
  virtual Result<double> DistanceFromRankZero() { return 0.0; }

 protected:
  // Parameters, buffers and other kept tensors; then the state of the optimizers.
  virtual std::vector<NamedTensor> ModelTensors() const = 0;
  virtual std::vector<NamedTensor> OptimizerTensors() const = 0;
  // Called before these tensors are read, and after they are written: copies the step counters of a
  // program's optimizers to them, and back.
  virtual void GatherNumbers() const {}
  virtual void ReturnNumbers() const {}
  // Whether optimizer state of a checkpoint may be left out: then a flag asks for it.
  virtual bool MayLeaveOptimizerState() const { return false; }

  // Throws the group's exceptions.
  void ReceiveState(std::uint32_t from) const;
  // Waits for copies of the state, before it changes.
  void AwaitCopies() const;

 private:
  struct Mirrors;

  ProcessGroup& group_;
  const bool apart_;
  std::function<void()> before_update_;
  const std::unique_ptr<Mirrors> mirrors_;  // Of a state that is apart.
};

}  // namespace ddprun
