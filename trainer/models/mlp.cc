#include "trainer/models/mlp.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <cmath>

#include "trainer/models/torch_model.h"

namespace ddprun {
namespace {

constexpr std::int64_t kHidden = 50;

// As nn.Linear does by default: uniform in +-1/sqrt(inputs), weight and bias.
void AddLinear(TorchModel& model, const std::string& name, std::int64_t inputs,
               std::int64_t outputs, const at::Generator& generator) {
  const double bound = 1.0 / std::sqrt(static_cast<double>(inputs));
  model.names.push_back(name + ".weight");
  model.parameters.push_back(at::empty({outputs, inputs}, at::kFloat));
  model.parameters.back().uniform_(-bound, bound, generator);
  model.names.push_back(name + ".bias");
  model.parameters.push_back(at::empty({outputs}, at::kFloat));
  model.parameters.back().uniform_(-bound, bound, generator);
}

}  // namespace

std::shared_ptr<TorchModel> MakeMlp(const ModelShape& shape, std::uint64_t seed) {
  const at::Generator generator = at::detail::createCPUGenerator(seed);
  auto model = std::make_shared<TorchModel>();
  AddLinear(*model, "fc1", shape.inputs, kHidden, generator);
  AddLinear(*model, "fc2", kHidden, shape.outputs, generator);
  model->forward = [](const std::vector<at::Tensor>& p, const at::Tensor& inputs) {
    return at::linear(at::linear(inputs, p[0], p[1]).relu_(), p[2], p[3]);
  };
  return model;
}

std::shared_ptr<TorchModel> MakeLinear(const ModelShape& shape, std::uint64_t seed) {
  const at::Generator generator = at::detail::createCPUGenerator(seed);
  auto model = std::make_shared<TorchModel>();
  AddLinear(*model, "fc", shape.inputs, shape.outputs, generator);
  model->forward = [](const std::vector<at::Tensor>& p, const at::Tensor& inputs) {
    return at::linear(inputs, p[0], p[1]);
  };
  return model;
}

}  // namespace ddprun
