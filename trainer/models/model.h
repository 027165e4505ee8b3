// A model: its parameters and buffers under PyTorch's names, and the way from a batch to its
// outputs. entries.h has the table of those the trainer knows.
//
// Torch-free: only a model's own file and the learner see inside (models/torch_model.h).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "trainer/arguments.h"
#include "trainer/task.h"

namespace ddprun {

struct TorchModel;

// The defaults for a training of this model.
struct Recipe {
  std::string_view dataset;
  std::string_view optimizer;
  double lr;
  std::int64_t batch;
};

struct ModelEntry {
  std::string_view name;
  Recipe recipe;
  // More threads per rank than this make a step slower, far slower on busy cores.
  int most_threads;
  // Samples of one evaluation forward: bounds its memory.
  std::uint64_t evaluation_batch;
  std::span<const ArgumentEntry> arguments;
  // Returns why the model cannot be trained on such samples with these arguments; empty: it can.
  std::string (*misfit)(const Task& task, const Arguments& arguments);
  // Makes the model with new parameters; the same seed gives the same ones.
  std::shared_ptr<TorchModel> (*make)(const Task& task, const Arguments& arguments,
                                      std::uint64_t seed);
};

}  // namespace ddprun
