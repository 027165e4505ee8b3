#include "trainer/datasets/dataset.h"

#include <cstddef>
#include <system_error>

#include "common/check.h"
#include "trainer/datasets/mnist.h"

namespace ddprun {
namespace {

constexpr DatasetEntry kDatasets[] = {
    {"mnist", "handwritten digits: 60,000 + 10,000 images of 28x28, 10 classes", LoadMnist},
};

}  // namespace

std::array<float, 256> NormalisationTable(double mean, double deviation) {
  std::array<float, 256> table{};
  for (std::size_t byte = 0; byte < table.size(); ++byte) {
    table[byte] = static_cast<float>((static_cast<double>(byte) / 255.0 - mean) / deviation);
  }
  return table;
}

void GatherBatch(const Dataset& dataset, const Samples& samples,
                 std::span<const std::uint32_t> indices, float* images, std::int64_t* labels) {
  const std::size_t pixels = samples.pixels;
  const float* const table = dataset.normalised.data();
  for (const std::uint32_t index : indices) {
    CHECK(index < samples.count);
    const std::uint8_t* const image = samples.images.data() + index * pixels;
    for (std::size_t i = 0; i < pixels; ++i) {
      images[i] = table[image[i]];
    }
    images += pixels;
    *labels++ = samples.labels[index];
  }
}

std::span<const DatasetEntry> KnownDatasets() {
  return kDatasets;
}

const DatasetEntry* FindDataset(std::string_view name) {
  for (const DatasetEntry& entry : kDatasets) {
    if (entry.name == name) {
      return &entry;
    }
  }
  return nullptr;
}

std::filesystem::path BundledDatasetRoot(std::string_view name) {
  std::error_code error;
  const auto executable = std::filesystem::read_symlink("/proc/self/exe", error);
  return (executable.parent_path() / ".." / "share" / "ddprun" / name).lexically_normal();
}

}  // namespace ddprun
