// Two convolutions with pooling and one linear layer, as nn.Sequential: 0, 3 and 7 have weights.
#include <torch/nn.h>

#include "trainer/models/entries.h"
#include "trainer/models/module_model.h"

namespace ddprun {
namespace {

namespace nn = torch::nn;

std::string Misfit(const Task& task, const Arguments&) {
  const bool fits = task.inputs.size() == 1 && task.inputs[0].size() == 3 && task.classifies();
  return fits ? "" : "it classifies images";
}

std::shared_ptr<TorchModel> Make(const Task& task, const Arguments& arguments, std::uint64_t seed) {
  SeedInitialisation(seed);
  const Shape& image = task.inputs[0];  // Channels, rows, columns.
  const std::int64_t width = arguments.Whole("width");
  const std::int64_t left = 2 * width * (image[1] / 4) * (image[2] / 4);
  return FromModule(
      nn::Sequential(nn::Conv2d(nn::Conv2dOptions(image[0], width, 3).padding(1)), nn::ReLU(),
                     nn::MaxPool2d(2),
                     nn::Conv2d(nn::Conv2dOptions(width, 2 * width, 3).padding(1)), nn::ReLU(),
                     nn::MaxPool2d(2), nn::Flatten(), nn::Linear(left, task.classes)),
      [](nn::Sequential& module, const std::vector<at::Tensor>& batch) {
        return module->forward(batch[0]);
      });
}

constexpr ArgumentEntry kArguments[] = {{"width", 8, 1, 1024}};

}  // namespace

constinit const ModelEntry kCnn = {.name = "cnn",
                                   .about = "two convolutions and a linear layer",
                                   .recipe = {"mnist", "adam", 1e-3, 64},
                                   .most_threads = 4,
                                   .evaluation_batch = 500,
                                   .arguments = kArguments,
                                   .misfit = Misfit,
                                   .make = Make};

}  // namespace ddprun
