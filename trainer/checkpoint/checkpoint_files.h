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

  // Writes and syncs every file, not the directory.
  Result<void> Write(FileSystem& files, const std::filesystem::path& directory) const;
  std::uint64_t bytes() const { return bytes_; }
  std::uint64_t digest() const { return digest_; }  // Of state.json.

 private:
  struct Part {
    std::string name;
    std::string header;
    const std::vector<Tensor>& tensors;
  };

  std::vector<Tensor> rank_tensors_;
  std::vector<Part> parts_;
  std::string state_text_;
  std::string sidecar_;
  std::uint64_t bytes_ = 0;
  std::uint64_t digest_ = 0;
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
