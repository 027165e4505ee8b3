#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/pooling.h>

#include "trainer/models/entries.h"
#include "trainer/models/module_model.h"

namespace ddprun {
namespace {

// Channels of the first convolution; the others are multiples of it.
constexpr ArgumentEntry kVggArguments[] = {{"width", 64, 1, 512}};
// K. Simonyan, A. Zisserman: Very Deep Convolutional Networks, configuration A. 0: a pooling.
constexpr std::int64_t kLayers[] = {1, 0, 2, 0, 4, 4, 0, 8, 8, 0, 8, 8, 0};

class Vgg11Impl : public torch::nn::Module {
 public:
  Vgg11Impl(std::int64_t width, std::int64_t classes) {
    std::int64_t channels = 3;
    for (const std::int64_t factor : kLayers) {
      if (factor == 0) {
        features_->push_back(torch::nn::MaxPool2d(torch::nn::MaxPool2dOptions(2).stride(2)));
        continue;
      }
      features_->push_back(
          torch::nn::Conv2d(torch::nn::Conv2dOptions(channels, width * factor, 3).padding(1)));
      features_->push_back(torch::nn::BatchNorm2d(width * factor));
      features_->push_back(torch::nn::ReLU(torch::nn::ReLUOptions(/*inplace=*/true)));
      channels = width * factor;
    }
    register_module("features", features_);
    classifier_ = register_module("classifier", torch::nn::Linear(channels, classes));
  }

  at::Tensor Forward(const at::Tensor& images) {
    return classifier_->forward(features_->forward(images).flatten(1));
  }

 private:
  torch::nn::Sequential features_;
  torch::nn::Linear classifier_{nullptr};
};

std::string VggMisfit(const Task& task, const Arguments&) {
  const bool fits = task.inputs == std::vector<Shape>{{3, 32, 32}} && task.classifies();
  return fits ? "" : "the model classifies images of 3x32x32";
}

std::shared_ptr<TorchModel> MakeVgg(const Task& task, const Arguments& arguments,
                                    std::uint64_t seed) {
  SeedInitialisation(seed);
  return FromModule(std::make_shared<Vgg11Impl>(arguments.Whole("width"), task.classes),
                    [](const std::shared_ptr<Vgg11Impl>& module,
                       const std::vector<at::Tensor>& batch) { return module->Forward(batch[0]); });
}

}  // namespace

constinit const ModelEntry kVgg11 = {.name = "vgg11",
                                     .recipe = {"mnist32", "adam", 5e-4, 128},
                                     .most_threads = 64,
                                     .evaluation_batch = 250,
                                     .arguments = kVggArguments,
                                     .misfit = VggMisfit,
                                     .make = MakeVgg};

}  // namespace ddprun
