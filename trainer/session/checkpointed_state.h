// The state that a program registers: the one list that decides what a checkpoint holds.
//
// libtorch makes an optimizer's state in the first step(); here it is made before, with the values
// that step() would give it. Included only by files that see libtorch anyway.
#pragma once

#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "common/result.h"
#include "trainer/learning/named_tensor.h"

namespace ddprun {

class CheckpointedState {
 public:
  // kInvalid: the name is taken, or a tensor cannot be saved; the message names it.
  Result<void> Add(const std::string& name, const std::shared_ptr<torch::nn::Module>& module);
  Result<void> Add(const std::string& name, torch::optim::Optimizer& optimizer);
  // The program may change it at any time.
  Result<void> Add(const std::string& name, const at::Tensor& tensor);

  // After the last Add: makes the optimizers' state. The optimizers outlive it. kInvalid: an
  // optimizer whose state is unknown here, or which depends on whether there was a step.
  Result<void> Close();

  // Parameters, buffers, tensors and values; then the optimizers' state.
  const std::vector<NamedTensor>& model() const { return model_; }
  const std::vector<NamedTensor>& optimizer() const { return optimizer_; }
  // Before that state is read, and after it was written: an optimizer counts its steps in numbers
  // of its own.
  void TakeSteps() const;
  void GiveSteps() const;

  const std::vector<std::shared_ptr<torch::nn::Module>>& modules() const { return modules_; }
  const std::vector<torch::optim::Optimizer*>& optimizers() const { return optimizers_; }

  bool Has(const at::Tensor& tensor) const { return !NameOf(tensor).empty(); }

  // Warnings: trained parameters that no kept module or tensor has, as "parameter 3 [2,2] in group
  // 0 of optimizer 'adam'", and replicated ones that no kept optimizer trains.
  std::vector<std::string> Problems(
      const std::vector<std::shared_ptr<torch::nn::Module>>& replicated) const;

 private:
  struct StateMaker;
  struct Counter {
    std::function<std::int64_t()> take;
    std::function<void(std::int64_t)> give;
  };
  // Of one optimizer: the steps of each parameter, and the tensor that a checkpoint has of them.
  struct Counted {
    std::vector<Counter> counters;
    at::Tensor steps;
  };

  Result<void> MakeState(const std::string& name, torch::optim::Optimizer& optimizer);
  Result<void> AddTensor(const std::string& name, const at::Tensor& tensor,
                         bool changes_at_any_time);
  // Empty: not kept.
  std::string NameOf(const at::Tensor& tensor) const;

  std::vector<NamedTensor> model_;
  std::vector<NamedTensor> optimizer_;
  std::set<std::string> names_;
  std::vector<std::shared_ptr<torch::nn::Module>> modules_;
  std::vector<torch::optim::Optimizer*> optimizers_;
  std::vector<std::string> optimizer_names_;
  std::vector<Counted> counted_;
};

}  // namespace ddprun
