// A model of ddprun-train and its optimizer, and how they take one step together with all ranks.
// Uses the other files of this folder in the order of a step.
//
// A step has one or more parts, each a forward and a backward whose gradients are added; the last
// part averages them over the ranks while its backward still runs. Then the optimizer. Gradients
// are weighted so that the result is that of one process with the whole global batch, however
// unevenly its samples are distributed and divided into parts. Knows nothing of epochs, files or
// time. Torch-free to its callers.
//
// An error of kind kUnavailable means that a peer is gone. After any error the learner cannot be
// used.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/result.h"
#include "trainer/device/step_graph.h"
#include "trainer/group/process_group.h"
#include "trainer/learning/learner.h"
#include "trainer/models/model.h"
#include "trainer/options/config.h"
#include "trainer/task.h"

namespace ddprun {

struct LearnerOptions {
  // The flags, all of them valid.
  TrainConfig config;
  // The shapes of samples and targets, for which the model is made.
  Task task;
  // Where the model is and steps are computed.
  Device device;
  // Records steps of one part and replays them, except for the update with float16, about which the
  // host decides. nullptr: steps are never replayed.
  std::shared_ptr<StepGraph> graph;
  // For tests: batches and snapshots are copied to and from the model's memory also on the CPU.
  bool apart = false;
};

struct Part {
  std::size_t slot = 0;            // Where the samples are.
  std::size_t count = 0;           // How many samples are there.
  std::uint64_t global_count = 0;  // Samples of the step, on all ranks.
  std::uint64_t seed = 0;          // Of this step and rank, for the model's random draws.
  bool first = true;
  bool last = true;
  // The step has one part on every rank, with as many samples here as in all such steps.
  bool regular = true;
};

class ModelLearner final : public Learner {
 public:
  // After the slots of one batch to learn from and of the next one, which is being filled.
  static constexpr std::size_t kEvaluationSlot = 2;

  ModelLearner(const ModelEntry& model, const LearnerOptions& options, ProcessGroup& group);
  ~ModelLearner() override;

  // Memory for batches, of zeros: `part` and `evaluation` are the most samples of one Backward and
  // of one Evaluate. After Start.
  Result<void> MakeRoom(std::size_t part, std::size_t evaluation);
  // Where the caller puts the next samples. After MakeRoom.
  BatchRoom room(std::size_t slot);

  // Whether there is anything to train.
  bool HasParameters() const;

  bool Replays() const override;

  // On a GPU these two only queue the work and do not wait for it. The slot may be filled again
  // once Backward has returned, after the last part once Update has returned. Between Backward and
  // Update of a step that is replayed nothing has been computed yet, so neither TakeScore nor
  // Evaluate may be called there.
  Result<void> Backward(const Part& part);
  // After the last part. kInvalid: a parameter takes no part in the loss; the message names it.
  // With float16 a step whose gradients overflow changes nothing but the scale of the loss.
  Result<void> Update(double lr);
  // Evaluates the samples in kEvaluationSlot, on this rank only. Nothing is learned.
  Result<Score> Evaluate(std::size_t count);

  Result<void> Start(const Buckets& buckets, std::uint32_t from) override;
  const Buckets& buckets() const override;
  Result<Score> TakeScore() override;
  std::optional<double> GradientNorm() const override;
  Result<double> DistanceFromRankZero() override;

 private:
  std::vector<NamedTensor> ModelTensors() const override;
  std::vector<NamedTensor> OptimizerTensors() const override;
  bool MayLeaveOptimizerState() const override { return true; }  // --momentum=0, --autocast.

  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ddprun
