// STOP and SAVE in the checkpoint directory: what a person can ask of a training with touch(1),
// wherever it runs.
//
// Rank 0 alone looks, on the thread that watches the directory's fence. STOP stays until a person
// removes it, or each restart would train on; SAVE is taken away once it was seen.
#pragma once

#include <atomic>
#include <filesystem>
#include <utility>

namespace ddprun {

class RunFiles {
 public:
  explicit RunFiles(std::filesystem::path directory) : directory_(std::move(directory)) {}

  static bool StopAsked(const std::filesystem::path& directory);

  // May hang with its disk.
  void Look();
  // The result of the last look; for any thread.
  bool stop() const { return stop_; }
  // Whether a SAVE came since the last call.
  bool TakeSave() { return save_.exchange(false); }

 private:
  const std::filesystem::path directory_;
  std::atomic<bool> stop_{false};
  std::atomic<bool> save_{false};
};

}  // namespace ddprun
