// A data set in memory, and the table of those the trainer knows.
//
// Images stay bytes, as read: a batch is normalised while it is gathered. Nothing here depends on
// libtorch.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

#include "common/result.h"

namespace ddprun {

struct Samples {
  std::uint32_t count = 0;
  std::uint32_t pixels = 0;          // Of one image.
  std::vector<std::uint8_t> images;  // count * pixels
  std::vector<std::uint8_t> labels;  // count, each below Dataset::classes
};

struct Dataset {
  std::uint32_t classes = 0;
  // What a pixel byte is to the model: (byte / 255 - mean) / deviation.
  std::array<float, 256> normalised{};
  Samples train;
  Samples test;
};

std::array<float, 256> NormalisationTable(double mean, double deviation);

// Copies the images and labels at `indices` to the model's input and target buffers, which have
// room for all of them.
void GatherBatch(const Dataset& dataset, const Samples& samples,
                 std::span<const std::uint32_t> indices, float* images, std::int64_t* labels);

struct DatasetEntry {
  std::string_view name;
  std::string_view about;
  Result<Dataset> (*load)(const std::filesystem::path& root);
};

// To add a data set: a loader beside mnist.cc, and a line in the table in dataset.cc.
std::span<const DatasetEntry> KnownDatasets();
const DatasetEntry* FindDataset(std::string_view name);

// Where a data set lies that came with the trainer: ../share/ddprun/<name> beside the directory of
// the executable.
std::filesystem::path BundledDatasetRoot(std::string_view name);

}  // namespace ddprun
