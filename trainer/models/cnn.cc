// Two convolutions with pooling and one linear layer: 0, 3 and 7 have weights.
#include "trainer/models/sequential.h"

namespace ddprun {

static torch::nn::Sequential CnnLayers(const Task& task, const Arguments& arguments) {
  using namespace torch::nn;
  const Shape& image = task.inputs[0];  // Channels, rows, columns.
  const std::int64_t width = arguments.Whole("width");
  const std::int64_t left = 2 * width * (image[1] / 4) * (image[2] / 4);
  return Sequential(Conv2d(Conv2dOptions(image[0], width, 3).padding(1)), ReLU(), MaxPool2d(2),
                    Conv2d(Conv2dOptions(width, 2 * width, 3).padding(1)), ReLU(), MaxPool2d(2),
                    Flatten(), Linear(left, task.classes));
}

static constexpr ArgumentEntry kCnnArguments[] = {{"width", 8, 1, 1024}};

constinit const ModelEntry kCnn = {.name = "cnn",
                                   .recipe = {"mnist", "adam", 1e-3, 64},
                                   .most_threads = 4,
                                   .evaluation_batch = 500,
                                   .arguments = kCnnArguments,
                                   .misfit = ClassifiesImages,
                                   .make = MakeSequential<CnnLayers>};

}  // namespace ddprun
