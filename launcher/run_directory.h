// The run directory of one agent: <log dir>/<run id>_<unique>, or one in the temporary directory
// that goes with the agent when nobody asked for logs.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "common/ids.h"
#include "common/result.h"

namespace ddprun {

// <temporary directory>/torchelastic_<unique>, where torchrun's users look for logs without
// --log-dir. Nobody removes it.
Result<std::string> MakeTemporaryLogDirectory();

class RunDirectory {
 public:
  // Mode 0700. `log_dir` empty: temporary. Then `will_be` is told its path before it is there: who
  // is killed in between leaves nothing that nobody knows of.
  static Result<RunDirectory> Make(
      const std::string& log_dir, const RunId& run_id,
      const std::function<void(const std::filesystem::path&)>& will_be);
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

}  // namespace ddprun
