// The run directory of one agent: <log dir>/<run id>_<unique>; where logs have no place <temporary
// directory>/torchelastic_<unique>/<run id>_<unique>, where torchrun's users look for them; and if
// logs were not asked for one in the temporary directory that goes with the agent.
#pragma once

#include <filesystem>
#include <string>

#include "agent/guard.h"
#include "common/ids.h"
#include "common/result.h"

namespace ddprun {

class RunDirectory {
 public:
  // Mode 0700. The guard learns what it has to remove before that exists: an agent that is killed
  // in between leaves nothing that the guard does not know.
  static Result<RunDirectory> Make(const std::string& log_dir, bool keeps_logs, const RunId& run_id,
                                   GuardLink& guard);
  RunDirectory(RunDirectory&& other) noexcept;
  RunDirectory(const RunDirectory&) = delete;
  ~RunDirectory();

  const std::filesystem::path& path() const { return path_; }
  bool temporary() const { return temporary_; }

 private:
  RunDirectory(std::filesystem::path path, bool temporary)
      : path_(std::move(path)), temporary_(temporary) {}

  std::filesystem::path path_;
  bool temporary_ = false;
};

// Makes the shared directory that ddprun chose by itself (LaunchConfig's `own_run_dir`), and its
// parent. Both must belong to this user, and no other user may write to them. The directory must
// take files. After an error it is not left behind.
Result<void> MakeOwnDirectory(const std::filesystem::path& directory);
// Both, with all that lies in the first; the parent only if it is empty then. Stops waiting for the
// disk after a while.
void RemoveOwnDirectory(const std::filesystem::path& directory);

// Where what is known of the run stays when it is over: `run_dir` (--run-dir), which nodes share,
// so that any server continues the same file; else the run directory. Empty: nowhere.
std::filesystem::path EvidencePlace(const std::string& run_dir, const RunDirectory& directory);

}  // namespace ddprun
