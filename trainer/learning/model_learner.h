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
#include "trainer/options/learning_options.h"
#include "trainer/task.h"

namespace ddprun {

struct LearnerOptions {
  // The shapes of samples and targets, for which the model is made.
  Task task;
  // The model's arguments; Arguments has checked them.
  Arguments model_arguments;
  // The initial parameters are drawn from it: another seed is another training.
  std::uint64_t seed = 1;
  // The optimizer and its constants.
  OptimizerOptions optimizer;
  // The bytes of a bucket of gradients: small ones cost a message each, large ones hide no time
  // behind the backward.
  std::size_t bucket_bytes = std::size_t{25} << 20;
  // The limit of the norm of all gradients: too small a limit slows learning down; 0: none.
  double clip_norm = 0;
  // The norm is computed also if nothing is clipped, which costs a pass over all gradients.
  bool measure_norm = false;
  // The digits of the forward, under autocast.
  Precision precision = Precision::kFloat32;
  // The digits of gradients on their way: fewer ones lose small gradients.
  Precision compression = Precision::kFloat32;
  // The loss: one that does not fit the targets gives numbers without meaning.
  Loss loss = Loss::kByTargets;
  // False: gradients are not averaged, to show how ranks differ.
  bool sync = true;
  // Parameters whose names begin so are not trained; a prefix that fits all leaves none.
  std::vector<std::string> freeze;
  // One device for each part of the model; none: it is not split.
  std::vector<std::string> split_devices;
  // Where the model is and steps are computed.
  Device device;
  // A CompiledForward; empty: the model evaluates.
  std::filesystem::path evaluation_package;
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
