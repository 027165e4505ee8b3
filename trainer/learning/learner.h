// The model, its optimizer and how they take one step together with all ranks: what the other files
// of this folder do, in the order of a step.
//
// A step is one or more parts, each a forward and a backward whose gradients add up; the last one
// averages them over the ranks while its backward still runs. Then the optimizer. Gradients are
// weighted so that the result is that of one process with the whole global batch, however unevenly
// its samples are dealt out and cut into parts. Knows nothing of epochs, files or time. Torch-free
// to its callers.
//
// An error of kind kUnavailable means that a peer is gone; the learner is of no use after any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/result.h"
#include "trainer/checkpoint/snapshot_copier.h"
#include "trainer/device/step_graph.h"
#include "trainer/group/process_group.h"
#include "trainer/learning/buckets.h"
#include "trainer/learning/score.h"
#include "trainer/models/model.h"
#include "trainer/options/learning_options.h"
#include "trainer/options/optimizer_options.h"
#include "trainer/task.h"

namespace ddprun {

struct LearnerOptions {
  Task task;
  Arguments model_arguments;
  std::uint64_t seed = 1;
  OptimizerOptions optimizer;
  std::size_t bucket_bytes = std::size_t{25} << 20;
  double clip_norm = 0;                       // Of all averaged gradients together; 0: none.
  bool measure_norm = false;                  // Of them, also where nothing is clipped.
  Precision precision = Precision::kFloat32;  // Of the forward, under autocast.
  Compression compression = Compression::kNone;
  Loss loss = Loss::kByTargets;
  bool sync = true;                 // False: gradients stay this rank's, to see how ranks part.
  std::vector<std::string> freeze;  // Parameters whose names begin so are not trained.
  std::vector<std::string> split_devices;  // One for each part of the model; none: not split.
  Device device;                           // Where the model lies and steps are computed.
  // Steps of one part are recorded in it and replayed, but for the update of float16, which the
  // host decides on; null: never.
  std::shared_ptr<StepGraph> graph;
  // For tests: batches and snapshots are copied to and from the model's memory also on the CPU.
  bool apart = false;
};

// Of this process on its GPU, as libtorch's allocator counts it.
struct DeviceMemory {
  std::uint64_t bytes = 0;
  std::uint64_t peak = 0;
};

struct Part {
  std::size_t slot = 0;            // Where the samples were put,
  std::size_t count = 0;           // and how many.
  std::uint64_t global_count = 0;  // Samples of the step, on all ranks.
  std::uint64_t seed = 0;          // Of the step here; feeds whatever the model draws at random.
  bool first = true;
  bool last = true;
  // A step of one part on every rank, with as many samples here as in all such steps.
  bool regular = true;
};

class Learner {
 public:
  // Batches that can be in memory at a time: one is learned from, the next one is filled; and one
  // to evaluate.
  static constexpr std::size_t kSlots = 3;
  static constexpr std::size_t kEvaluationSlot = 2;

  Learner(const ModelEntry& model, const LearnerOptions& options, ProcessGroup& group);
  ~Learner();

  // Parameters, buffers and optimizer state of the rank `from` on all ranks, then ready for steps.
  // `part` and `evaluation` are the most samples of one Backward and one Evaluate here. `buckets`
  // is what a checkpoint recorded, so that a resumed run adds gradients up in the same order as the
  // run that went on; empty: none yet.
  Result<void> Start(std::size_t part, std::size_t evaluation, const Buckets& buckets,
                     std::uint32_t from = 0);

  // Where the caller puts the next samples, after Start.
  BatchRoom room(std::size_t slot);

  // Whether there is anything to train.
  bool HasParameters() const;
  // Whether the model has buffers, which differ from rank to rank: those that count are rank 0's.
  bool HasBuffers() const;

  // Whether steps are replayed from a graph by now. It is recorded after kWarmSteps steps.
  bool Replays() const;
  static constexpr std::size_t kWarmSteps = 11;  // As PyTorch demands of one with DDP in it.

  // On a GPU these two only tell it what to do, and do not wait until it is done. The slot may be
  // filled again from the return of Backward on, after the last part from that of Update on.
  // Between Backward and Update of a step that is replayed nothing has been computed yet, so
  // neither TakeScore nor Evaluate may be called there.
  Result<void> Backward(const Part& part);
  // After the last part. kInvalid: a parameter takes no part in the loss; the message names it.
  // With float16 a step whose gradients overflow changes nothing but the scale of the loss.
  Result<void> Update(double lr);
  // Of all parts since the last call, here. Waits for the GPU.
  Result<Score> TakeScore();
  // Of all averaged gradients together in the last Update, before clipping: the same on every rank.
  // None: not asked for, or no step yet.
  std::optional<double> GradientNorm() const;

  // None where the model lies in the host's memory.
  std::optional<DeviceMemory> MemoryOnDevice() const;

  // The largest difference of a parameter's number here and on rank 0: by all ranks together.
  Result<double> DistanceFromRankZero();

  // Before evaluations: rank 0's buffers are everybody's.
  Result<void> ShareBuffers();
  // No learning; only this rank, with the samples in kEvaluationSlot.
  Result<Score> Evaluate(std::size_t count);

  // Names, shapes and sizes: equal only for equal models.
  std::string Describe() const;

  // Called in each Update just before parameters and optimizer state change; from one such call to
  // the next they do not (SnapshotCopier's contract), but for buffers: a forward changes those.
  void BeforeUpdate(std::function<void()> wait);

  // Parameters, buffers and optimizer state, in the host's memory as long as the learner lives:
  // where they are used, or copies, valid from the view's wait() until the next View.
  SnapshotView View() const;
  std::uint64_t StateBytes() const;  // Of all of them.
  Result<void> CopyFrom(const Snapshot& snapshot);

  // How gradients are grouped and ordered; empty before the first step and in a group of one.
  const Buckets& buckets() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ddprun
