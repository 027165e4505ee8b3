#include "trainer/learning/optimizer.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace ddprun {
namespace {

struct Trained {
  std::vector<at::Tensor> parameters;
  std::vector<NamedTensor> state;
};

// Some steps; the gradients are numbers of the step.
Trained StepsOf(const OptimizerOptions& options, bool recorded) {
  std::vector<at::Tensor> parameters;
  std::vector<std::string> names;
  for (const std::vector<std::int64_t>& shape :
       std::vector<std::vector<std::int64_t>>{{50, 784}, {50}, {10, 50}, {10}, {}}) {
    names.push_back("p" + std::to_string(names.size()));
    const std::int64_t count = at::zeros(shape).numel();
    parameters.push_back(at::linspace(-1, 1, count).reshape(shape).clone());
  }
  Optimizer optimizer(options, names, parameters);
  for (int step = 1; step <= 3; ++step) {
    std::vector<at::Tensor> gradients;
    gradients.reserve(parameters.size());
    for (const at::Tensor& parameter : parameters) {
      gradients.push_back(parameter * step);  // The same bits by however many threads.
    }
    optimizer.Begin(0.1 / step);
    optimizer.Apply(gradients, recorded);
  }
  EXPECT_EQ(optimizer.steps(), 3);
  return {parameters, optimizer.state()};
}

// A graph's update cuts small models into pieces for the GPU: the bits are those of whole tensors.
TEST(Optimizer, ARecordedUpdateGivesTheSameBits) {
  for (const OptimizerKind kind :
       {OptimizerKind::kAdam, OptimizerKind::kAdamW, OptimizerKind::kSgd}) {
    OptimizerOptions options;
    options.kind = kind;
    options.momentum = kind == OptimizerKind::kSgd ? 0.9 : 0;
    options.weight_decay = 0.01;
    const Trained whole = StepsOf(options, /*recorded=*/false);
    const Trained pieces = StepsOf(options, /*recorded=*/true);
    for (std::size_t i = 0; i < whole.parameters.size(); ++i) {
      EXPECT_TRUE(at::equal(whole.parameters[i], pieces.parameters[i])) << i;
    }
    ASSERT_EQ(whole.state.size(), pieces.state.size());
    for (std::size_t i = 0; i < whole.state.size(); ++i) {
      EXPECT_TRUE(at::equal(whole.state[i].tensor, pieces.state[i].tensor)) << whole.state[i].name;
    }
  }
}

}  // namespace
}  // namespace ddprun
