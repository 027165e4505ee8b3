// The result of a training: the files that --result and --dump-parameters name, the final lines.
//
// A file appears whole or not at all, and replaces only an ordinary file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "common/result.h"
#include "trainer/checkpoint/snapshot.h"
#include "trainer/options/config.h"

namespace ddprun {

// Refuses names that can be seen to fail, before hours of training; makes their directories. May
// hang with its disk.
Result<void> PrepareOutputs(const TrainConfig& config);

Result<void> WriteResult(const std::filesystem::path& path, const TrainState& state,
                         std::uint32_t world_size);
Result<void> WriteParameters(const std::filesystem::path& path,
                             const std::vector<Tensor>& parameters);

// "train accuracy ..., loss ... (n samples)", and the same of the test set.
std::string ResultLines(const TrainState& state);

}  // namespace ddprun
