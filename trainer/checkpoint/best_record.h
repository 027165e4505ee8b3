// best.json in a checkpoint directory: which checkpoint had the best validation.
//
//   {"directory":"step-00000900-9f0c55aa01234567","digest":"<xxh64 of its state.json>"}
//
// Replaced by a rename: at any instant the old record or the new one.
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "trainer/checkpoint/fence_record.h"
#include "trainer/checkpoint/file_system.h"

namespace ddprun {

// None: there is no record.
Result<std::optional<CheckpointRef>> ReadBest(FileSystem& files,
                                              const std::filesystem::path& directory);

// Pure: whether the records prove that `ref` is among `lineage` or its ancestors. `before`:
// FenceLog::Before, which knows only so many of them.
bool Descends(const std::vector<CheckpointRef>& lineage, const CheckpointRef& ref,
              const std::vector<FenceRecord>& before);

Result<void> WriteBest(FileSystem& files, const std::filesystem::path& directory,
                       const CheckpointRef& best, WorldId writer);

}  // namespace ddprun
