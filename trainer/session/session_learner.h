// The things that a program keeps and replicates, as the steps of a training see them; and the
// averaging of its gradients.
//
// Included only by files that see libtorch anyway.
#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "trainer/group/process_group.h"
#include "trainer/include/ddprun/trainer.h"
#include "trainer/learning/gradient_exchange.h"
#include "trainer/learning/learner.h"
#include "trainer/options/config.h"
#include "trainer/session/checkpointed_state.h"

namespace ddprun {

double ValueOf(const Metric& metric);  // Waits for the GPU.

class SessionLearner final : public Learner {
 public:
  // The group and the flags outlive it.
  SessionLearner(CheckpointedState kept, std::vector<std::shared_ptr<torch::nn::Module>> replicated,
                 ProcessGroup& group, at::Device device, const TrainConfig& config);

  const CheckpointedState& kept() const { return kept_; }

  // backward() of `weight` times the loss. `exchanges`: then averages the gradients of the modules
  // that the loss reaches. When it returns, the program may change parameters and optimizer state.
  // kInvalid: the loss is not one number, or reaches a module in part, or a kept parameter was
  // changed since the last step; the message names what.
  Result<void> Backward(const at::Tensor& loss, double weight, bool exchanges);

  // Of one step or evaluation with so many samples: the mean over them.
  void AddMetric(const Metric& metric, std::size_t samples);
  void AddSamples(std::size_t samples) { samples_ += samples; }
  // At the end of a step. kInvalid: gradients were not exchanged, or a kept parameter was changed
  // without a Backward.
  Result<void> CheckStep() const;
  // At the end of a step: a warning about tensors that it has trained though no replicated module
  // has them. Empty: none, or not the first step.
  std::string TrainedElsewhere();
  // The step is over: parameters may not change until the next Backward, and the gradients of all
  // replicated and optimized parameters are undefined again.
  void ForgetGradients();

  Result<void> Start(const Buckets& buckets, std::uint32_t from) override;
  const Buckets& buckets() const override { return buckets_; }
  Result<Score> TakeScore() override;
  // Of the first optimizer's first group. NaN: no optimizer is kept.
  std::optional<double> LearningRate() const override;

 private:
  std::vector<NamedTensor> ModelTensors() const override { return kept_.model(); }
  std::vector<NamedTensor> OptimizerTensors() const override { return kept_.optimizer(); }
  void GatherNumbers() const override { kept_.TakeSteps(); }
  void ReturnNumbers() const override { kept_.GiveSteps(); }

  struct Replica {
    std::shared_ptr<torch::nn::Module> module;
    std::vector<std::string> names;
    std::vector<at::Tensor> parameters;
    std::unique_ptr<GradientExchange> exchange;  // None in a group of one.
    // Whether a loss of the open step has reached it, and its gradients still wait for an exchange.
    bool reached = false;
    bool sums = false;
  };
  // A sum over samples. A GPU's numbers stay there until they are taken.
  struct Sum {
    double on_host = 0;
    at::Tensor on_device;
  };

  // Those with a parameter that the loss reaches. Notes the leaves that are in none of them.
  Result<std::vector<Replica*>> Reached(const at::Tensor& loss);
  void NoteBuckets();
  // Copies for a checkpoint may be under way until a Backward. libtorch counts the changes of each
  // tensor (but not those of its data()).
  Result<void> CheckUnchanged() const;

  const CheckpointedState kept_;
  std::vector<Replica> replicas_;
  ProcessGroup& group_;
  const TrainConfig& config_;
  Buckets buckets_;  // The buckets of all replicas; their parameters are numbered consecutively.
  at::Tensor weight_;
  double weight_there_ = 0;
  std::vector<std::pair<at::Tensor, at::Tensor>> elsewhere_;  // With copies of before.
  bool looks_elsewhere_ = true;
  bool may_change_ = false;             // Whether a Backward of the open step has returned.
  std::vector<std::int64_t> versions_;  // The kept tensors' change counters after the last step.
  std::map<std::string, Sum> metrics_;
  std::size_t samples_ = 0;
};

}  // namespace ddprun
