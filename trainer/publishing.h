// A trained model for others: its parameters alone, readable by any safetensors reader, and a small
// model.json that says what they are.
//
//   DIR/model.safetensors   names, shapes and values as in a checkpoint
//   DIR/model.json          model, data set, step, metrics, and the size and xxh64 of the file
//   above
//
// Each file appears whole or not at all, model.json last: where it is, the model is complete. An
// earlier publication is replaced; anything else in the directory stays.
#pragma once

#include <filesystem>
#include <vector>

#include "trainer/checkpoint/file_system.h"
#include "trainer/checkpoint/snapshot.h"

namespace ddprun {

Result<void> Publish(FileSystem& files, const std::filesystem::path& directory,
                     const std::vector<Tensor>& parameters, const TrainState& state);

// The parameters in a safetensors file, or in a directory's model.safetensors.
Result<std::vector<Tensor>> ReadParameters(FileSystem& files, const std::filesystem::path& path);

}  // namespace ddprun
