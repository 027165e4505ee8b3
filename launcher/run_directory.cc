#include "launcher/run_directory.h"

#include <stdlib.h>

#include <cerrno>
#include <utility>

#include "common/files.h"
#include "common/loop.h"
#include "proto/worker_env.h"
#include "rendezvous/operators_door.h"

namespace ddprun {
namespace {

constexpr Duration kRemovalPatience{1'000};

}  // namespace

Result<std::string> MakeTemporaryLogDirectory() {
  const std::filesystem::path base = GetProcessEnv("TMPDIR").value_or("/tmp");
  std::string path = (std::filesystem::absolute(base) / "torchelastic_XXXXXX").native();
  if (::mkdtemp(path.data()) == nullptr) {
    Error error = SystemError("make a directory for logs", path, errno);
    error.message += " (TMPDIR, or --log-dir)";
    error.kind = ErrorKind::kInvalid;
    return error;
  }
  return path;
}

Result<RunDirectory> RunDirectory::Make(const std::string& log_dir, const RunId& run_id) {
  std::filesystem::path base = log_dir;
  std::string name = run_id + "_XXXXXX";
  if (log_dir.empty()) {
    base = GetProcessEnv("TMPDIR").value_or("/tmp");
    name = "ddprun_" + name;
  } else {
    if (const Result<void> made = MakeDirectories(base, 0777); !made) {
      return Error{ErrorKind::kInvalid, made.error().message + " (--log-dir)"};
    }
  }
  std::string path = (std::filesystem::absolute(base) / name).native();
  if (::mkdtemp(path.data()) == nullptr) {
    Error error = SystemError("make the run directory", path, errno);
    error.message += log_dir.empty() ? " (TMPDIR)" : " (--log-dir)";
    error.kind = ErrorKind::kInvalid;
    return error;
  }
  return RunDirectory(path, log_dir.empty());
}

RunDirectory::RunDirectory(RunDirectory&& other) noexcept
    : path_(std::exchange(other.path_, {})), temporary_(std::exchange(other.temporary_, false)) {}

// A disk may hang here too.
RunDirectory::~RunDirectory() {
  if (path_.empty()) {
    return;
  }
  (void)FinishesWithin(kRemovalPatience, [path = path_, temporary = temporary_] {
    std::error_code ignored;  // What cannot be removed is in the temporary directory anyway.
    if (temporary) {
      std::filesystem::remove_all(path, ignored);
    } else {
      std::filesystem::remove(path / kOperatorsDoor, ignored);
    }
  });
}

}  // namespace ddprun
