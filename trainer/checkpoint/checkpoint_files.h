// The contents of one checkpoint directory: which files, and how they vouch for each other.
//
//   the commit record -> state.json (its digest) -> every other file (size and digest)
//   state.json.xxh64  -> state.json, for people who name a checkpoint by its path
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "trainer/checkpoint/checkpoint_store.h"
#include "trainer/checkpoint/file_system.h"
#include "trainer/checkpoint/snapshot.h"

namespace ddprun {

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

  std::vector<Tensor> rank_tensors_;
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

Result<std::uint64_t> ReadSidecar(FileSystem& files, const std::filesystem::path& path);

}  // namespace ddprun
