#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <cmath>

#include "trainer/models/entries.h"
#include "trainer/models/torch_model.h"

namespace ddprun {
namespace {

constexpr ArgumentEntry kMlpArguments[] = {{"hidden", 50, 1, 65536}};

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

// Where its parameters are.
at::Tensor LinearOf(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias) {
  return at::linear(input.to(weight.device()), weight, bias);
}

std::string MisfitOfClassifier(const Task& task, const Arguments&) {
  return task.inputs.size() == 1 && task.classifies() ? "" : "the model classifies a single input";
}

std::string MisfitOfToy(const Task& task, const Arguments&) {
  const bool fits =
      task.inputs == std::vector<Shape>{{10}} && !task.classifies() && task.target == Shape{5};
  return fits ? "" : "the model maps 10 numbers to 5";
}

std::shared_ptr<TorchModel> TwoLayers(const std::string& first, const std::string& second,
                                      std::int64_t inputs, std::int64_t hidden,
                                      std::int64_t outputs, std::uint64_t seed) {
  const at::Generator generator = at::detail::createCPUGenerator(seed);
  auto model = std::make_shared<TorchModel>();
  AddLinear(*model, first, inputs, hidden, generator);
  AddLinear(*model, second, hidden, outputs, generator);
  model->parts = {0, 0, 1, 1};
  model->linear_layers = true;
  model->forward = [p = model->parameters](const std::vector<at::Tensor>& batch, bool) {
    return LinearOf(LinearOf(batch[0].flatten(1), p[0], p[1]).relu_(), p[2], p[3]);
  };
  return model;
}

std::shared_ptr<TorchModel> MakeMlp(const Task& task, const Arguments& arguments,
                                    std::uint64_t seed) {
  return TwoLayers("fc1", "fc2", NumbersIn(task.inputs[0]), arguments.Whole("hidden"), task.classes,
                   seed);
}

std::shared_ptr<TorchModel> MakeToy(const Task&, const Arguments&, std::uint64_t seed) {
  return TwoLayers("net1", "net2", 10, 10, 5, seed);
}

std::shared_ptr<TorchModel> MakeLinear(const Task& task, const Arguments&, std::uint64_t seed) {
  const at::Generator generator = at::detail::createCPUGenerator(seed);
  auto model = std::make_shared<TorchModel>();
  AddLinear(*model, "fc", NumbersIn(task.inputs[0]), task.classes, generator);
  model->linear_layers = true;
  model->forward = [p = model->parameters](const std::vector<at::Tensor>& batch, bool) {
    return at::linear(batch[0].flatten(1), p[0], p[1]);
  };
  return model;
}

}  // namespace

constinit const ModelEntry kMlp = {.name = "mlp",
                                   .recipe = {"mnist", "adam", 1e-3, 64},
                                   .most_threads = 1,
                                   .evaluation_batch = 1000,
                                   .arguments = kMlpArguments,
                                   .misfit = MisfitOfClassifier,
                                   .make = MakeMlp};

constinit const ModelEntry kLinear = {.name = "linear",
                                      .recipe = {"mnist", "adam", 1e-3, 64},
                                      .most_threads = 1,
                                      .evaluation_batch = 1000,
                                      .arguments = {},
                                      .misfit = MisfitOfClassifier,
                                      .make = MakeLinear};

constinit const ModelEntry kToy = {.name = "toy",
                                   .recipe = {"toy", "sgd", 1e-2, 20},
                                   .most_threads = 1,
                                   .evaluation_batch = 1000,
                                   .arguments = {},
                                   .misfit = MisfitOfToy,
                                   .make = MakeToy};

}  // namespace ddprun
