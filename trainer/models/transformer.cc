#include <ATen/ATen.h>
#include <torch/nn/modules/transformer.h>

#include "trainer/models/entries.h"
#include "trainer/models/module_model.h"

namespace ddprun {
namespace {

constexpr ArgumentEntry kTransformerArguments[] = {{"heads", 8, 1, 1024},
                                                   {"layers", 6, 1, 1000},
                                                   {"ff", 2048, 1, 1 << 20},
                                                   {"dropout", 0.1, 0, 0.99, /*whole=*/false}};

std::string TransformerMisfit(const Task& task, const Arguments& arguments) {
  const bool fits = task.inputs.size() == 2 && task.inputs[0].size() == 2 &&
                    task.inputs[1].size() == 2 && task.inputs[0][1] == task.inputs[1][1] &&
                    task.target == task.inputs[1];
  if (!fits) {
    return "the model maps two sequences of vectors to one";
  }
  if (task.inputs[0][1] % arguments.Whole("heads") != 0) {
    return "the vectors' " + std::to_string(task.inputs[0][1]) +
           " numbers cannot be divided among heads=" + std::to_string(arguments.Whole("heads"));
  }
  return "";
}

// The module wants [positions, samples, numbers], and at least one sample.
at::Tensor Forward(torch::nn::Transformer& module, const std::vector<at::Tensor>& batch) {
  if (batch[0].size(0) > 0) {
    return module->forward(batch[0].transpose(0, 1), batch[1].transpose(0, 1)).transpose(0, 1);
  }
  const auto one = [](const at::Tensor& empty) {
    return at::zeros({empty.size(1), 1, empty.size(2)}, empty.options());
  };
  return module->forward(one(batch[0]), one(batch[1])).transpose(0, 1).narrow(0, 0, 0);
}

std::shared_ptr<TorchModel> MakeTransformer(const Task& task, const Arguments& arguments,
                                            std::uint64_t seed) {
  SeedInitialisation(seed);
  const std::int64_t layers = arguments.Whole("layers");
  return FromModule(
      torch::nn::Transformer(
          torch::nn::TransformerOptions(task.inputs[0][1], arguments.Whole("heads"), layers, layers)
              .dim_feedforward(arguments.Whole("ff"))
              .dropout(arguments.Number("dropout"))),
      Forward);
}

}  // namespace

constinit const ModelEntry kTransformer = {.name = "transformer",
                                           .recipe = {"seq2seq", "adam", 1e-3, 32},
                                           .most_threads = 64,
                                           .evaluation_batch = 64,
                                           .arguments = kTransformerArguments,
                                           .misfit = TransformerMisfit,
                                           .make = MakeTransformer};

}  // namespace ddprun
