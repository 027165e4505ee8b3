#include "trainer/models/entries.h"

#include <algorithm>
#include <iterator>

namespace ddprun {
namespace {

constexpr const ModelEntry* kModels[] = {&kMlp, &kLinear, &kToy, &kCnn, &kVgg11, &kTransformer};

}  // namespace

std::span<const ModelEntry* const> KnownModels() {
  return kModels;
}

const ModelEntry* FindModel(std::string_view name) {
  const auto* const found = std::ranges::find(kModels, name, &ModelEntry::name);
  return found == std::end(kModels) ? nullptr : *found;
}

}  // namespace ddprun
