// A model: its parameters under PyTorch's names, and the way from a batch to logits; and the table
// of those the trainer knows.
//
// Torch-free: only a model's own file and the learner see inside (models/torch_model.h).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

namespace ddprun {

struct TorchModel;

struct ModelShape {
  std::int64_t inputs = 0;   // Numbers of one sample.
  std::int64_t outputs = 0;  // Classes.
};

struct ModelEntry {
  std::string_view name;
  std::string_view about;
  // More threads per rank than this make a step slower, far slower on busy cores.
  int most_threads;
  // Freshly initialised; the same seed gives the same parameters.
  std::shared_ptr<TorchModel> (*make)(const ModelShape& shape, std::uint64_t seed);
};

// To add a model: a file beside mlp.cc, and a line in the table in model.cc.
std::span<const ModelEntry> KnownModels();
const ModelEntry* FindModel(std::string_view name);

}  // namespace ddprun
