#include "trainer/models/entries.h"

namespace ddprun {
namespace {

constexpr const ModelEntry* kModels[] = {&kMlp, &kLinear, &kToy, &kCnn, &kVgg11, &kTransformer};

}  // namespace

std::span<const ModelEntry* const> KnownModels() {
  return kModels;
}

const ModelEntry* FindModel(std::string_view name) {
  for (const ModelEntry* const entry : kModels) {
    if (entry->name == name) {
      return entry;
    }
  }
  return nullptr;
}

}  // namespace ddprun
