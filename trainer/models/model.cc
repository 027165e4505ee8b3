#include "trainer/models/model.h"

#include "trainer/models/mlp.h"

namespace ddprun {
namespace {

constexpr ModelEntry kModels[] = {
    {"mlp", "two linear layers, 50 hidden units, ReLU", 1, MakeMlp},
    {"linear", "one linear layer: softmax regression", 1, MakeLinear},
};

}  // namespace

std::span<const ModelEntry> KnownModels() {
  return kModels;
}

const ModelEntry* FindModel(std::string_view name) {
  for (const ModelEntry& entry : kModels) {
    if (entry.name == name) {
      return &entry;
    }
  }
  return nullptr;
}

}  // namespace ddprun
