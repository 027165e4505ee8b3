#include "trainer/data/entries.h"

#include <algorithm>
#include <iterator>

namespace ddprun {
namespace {

constexpr const DatasetEntry* kDatasets[] = {&kMnist,   &kMnist32, &kCifar10, &kSynthetic,
                                             &kToyData, &kSeq2Seq, &kCircle,  &kHdf5};

}  // namespace

std::span<const DatasetEntry* const> KnownDatasets() {
  return kDatasets;
}

const DatasetEntry* FindDataset(std::string_view name) {
  const auto* const found = std::ranges::find(kDatasets, name, &DatasetEntry::name);
  return found == std::end(kDatasets) ? nullptr : *found;
}

}  // namespace ddprun
