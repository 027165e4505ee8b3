// A trained model for others: its parameters alone, readable by any safetensors reader, and a small
// model.json that says what they are.
//
//   DIR/model.safetensors   names, shapes and values as in a checkpoint
//   DIR/model.json          model, data set, step, metrics, and the size and xxh64 of the file
//   above
//
// Each file appears whole or not at all, model.json last: where it is, the model is complete. An
// earlier publication is replaced; anything else in the directory stays.
//
// And what a new training of another model can use of it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "trainer/checkpoint/file_system.h"
#include "trainer/checkpoint/snapshot.h"

namespace ddprun {

Result<void> Publish(FileSystem& files, const std::filesystem::path& directory,
                     const std::vector<Tensor>& parameters, const TrainState& state);

// The parameters in a safetensors file, or in a directory's model.safetensors.
Result<std::vector<Tensor>> ReadParameters(FileSystem& files, const std::filesystem::path& path);

struct TransferReport {
  std::vector<std::string> loaded;
  std::vector<std::string> missing;  // Of this model, and not in the file: as initialised.
  std::vector<std::string> unused;   // In the file, and not of this model.
  std::vector<std::string> misfits;  // In both, with other shapes or types: "name: [5] there, ...".
};

// Pure. Puts into `model` what `given` has for it. `strict`: an error as Describe gives it if
// anything does not fit, and nothing is changed. Nothing that fits at all is an error either way.
Result<TransferReport> Transfer(const std::vector<Tensor>& given, bool strict,
                                std::vector<Tensor>& model);

// In one line, each list by its first names; empty lists are left out. `taken`: the parameters that
// fit are used.
std::string Describe(const TransferReport& report, bool taken = true);

}  // namespace ddprun
