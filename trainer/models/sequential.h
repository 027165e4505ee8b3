// The shortest way to a model: an nn.Sequential with one input. Its own name for what it holds is
// the layer's number, as in Python. Included only by files that see libtorch anyway.
#pragma once

#include <torch/nn.h>

#include "trainer/models/entries.h"
#include "trainer/models/module_model.h"

namespace ddprun {

// ModelEntry::misfit of a model for images in classes.
inline std::string ClassifiesImages(const Task& task, const Arguments&) {
  const bool fits = task.inputs.size() == 1 && task.inputs[0].size() == 3 && task.classifies();
  return fits ? "" : "the model classifies images";
}

// ModelEntry::make; `Layers` gives the module, freshly initialised.
template <torch::nn::Sequential (*Layers)(const Task&, const Arguments&)>
std::shared_ptr<TorchModel> MakeSequential(const Task& task, const Arguments& arguments,
                                           std::uint64_t seed) {
  SeedInitialisation(seed);
  return FromModule(Layers(task, arguments),
                    [](torch::nn::Sequential& module, const std::vector<at::Tensor>& batch) {
                      return module->forward(batch[0]);
                    });
}

}  // namespace ddprun
