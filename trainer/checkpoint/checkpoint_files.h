// The contents of one checkpoint directory: which files, and how they vouch for each other.
//
//   the commit record -> state.json (its digest) -> every other file (size and digest)
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "trainer/checkpoint/alive_file.h"
#include "trainer/checkpoint/fence_record.h"
#include "trainer/checkpoint/file_system.h"
#include "trainer/checkpoint/snapshot.h"

namespace ddprun {

struct CheckpointConfig {
  // The directory of the checkpoints: two trainings in one refuse each other.
  std::filesystem::path directory;
  // At least 1, at most kMaxLineage / 2: few leave no older checkpoint where the newest is damaged.
  std::size_t keep_last = 3;
  // The model's name: a checkpoint of another one is an error, and nothing is deleted.
  std::string model;
  // The model's arguments: a checkpoint of other ones is an error, and nothing is deleted.
  std::string model_description;
  // How a run that still writes to the directory is found.
  AliveOptions alive;
};

struct LoadedCheckpoint {
  Snapshot snapshot;
  CheckpointRef ref;  // The checkpoint that the other ranks load with LoadExactly.
};

// A snapshot laid out as files. The snapshot must outlive it.
class CheckpointFiles {
 public:
  CheckpointFiles(const Snapshot& snapshot, TrainState state);
  CheckpointFiles(const CheckpointFiles&) = delete;
  CheckpointFiles& operator=(const CheckpointFiles&) = delete;

  // Writes and syncs every file, not the directory; the digest of state.json.
  Result<std::uint64_t> Write(FileSystem& files, const std::filesystem::path& directory);
  std::uint64_t bytes() const { return bytes_; }  // Of all files together.

 private:
  struct Part {
    std::string name;
    std::string header;
    const std::vector<Tensor>& tensors;
  };

  std::vector<Part> parts_;
  StateFile state_;  // Its digests are known once the files are written.
  std::uint64_t bytes_ = 0;
};

struct ReadOutcome {
  std::optional<LoadedCheckpoint> checkpoint;
  Error error;               // Where there is no checkpoint.
  bool other_model = false;  // It is whole, but not for this program.
};

ReadOutcome ReadCheckpoint(FileSystem& files, const std::filesystem::path& path,
                           std::uint64_t digest, const CheckpointConfig& config);

}  // namespace ddprun
