// STOP and SAVE in the checkpoint directory: what a person can ask of a training with touch(1),
// wherever it runs.
//
// Rank 0 alone looks. STOP stays until a person removes it, or each restart would train on; SAVE is
// taken away once it was seen.
#pragma once

#include <filesystem>

namespace ddprun {

class RunFiles {
 public:
  explicit RunFiles(const std::filesystem::path& directory);

  bool StopAsked() const;
  bool TakeSave() const;  // Whether it was there.

 private:
  std::filesystem::path stop_;
  std::filesystem::path save_;
};

}  // namespace ddprun
