#include "trainer/data/entries.h"

namespace ddprun {
namespace {

constexpr const DatasetEntry* kDatasets[] = {&kMnist,   &kMnist32, &kCifar10, &kSynthetic,
                                             &kToyData, &kSeq2Seq, &kCircle,  &kHdf5};

}  // namespace

std::span<const DatasetEntry* const> KnownDatasets() {
  return kDatasets;
}

const DatasetEntry* FindDataset(std::string_view name) {
  for (const DatasetEntry* const entry : kDatasets) {
    if (entry->name == name) {
      return entry;
    }
  }
  return nullptr;
}

}  // namespace ddprun
