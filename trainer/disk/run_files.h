// STOP and SAVE in the checkpoint directory: what a person can ask of a training with touch(1),
// wherever it runs.
//
// Rank 0 alone looks. STOP stays until a person removes it, or each restart would train on; SAVE is
// taken away once it was seen. A look is made on a thread and waited for briefly: where the disk
// hangs, its answer counts when it comes, and until then nothing was asked.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>

#include "common/task_queue.h"

namespace ddprun {

class RunFiles {
 public:
  struct Asked {
    bool stop = false;
    bool save = false;  // Since the last look.
  };

  explicit RunFiles(const std::filesystem::path& directory);
  // For tests: what a look finds.
  explicit RunFiles(std::function<Asked()> look);

  // By the caller itself, however long that takes: before there are peers that wait.
  static bool StopAsked(const std::filesystem::path& directory);

  // Looks, unless an earlier look still is under way.
  Asked Poll();
  // The same, by any thread, and a SAVE that came stays.
  bool StopsNow();

 private:
  struct Seen;

  void Look();

  const std::function<Asked()> look_;
  const std::shared_ptr<Seen> seen_;
  TaskQueue thread_;
};

}  // namespace ddprun
