#include "launcher/run_directory.h"

#include <stdlib.h>
#include <sys/stat.h>

#include <cerrno>
#include <random>
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

namespace {

// As mkdtemp, but that `will_be` is told first.
Result<std::string> MakeUnique(const std::filesystem::path& prefix,
                               const std::function<void(const std::filesystem::path&)>& will_be) {
  constexpr int kTries = 100;
  std::random_device device;
  std::string path;
  for (int i = 0; i < kTries; ++i) {
    path = prefix.native() + Hex(device());
    will_be(path);
    if (::mkdir(path.c_str(), 0700) == 0) {
      return path;
    }
    if (errno != EEXIST) {
      break;
    }
  }
  return SystemError("make the run directory", path, errno);
}

}  // namespace

Result<RunDirectory> RunDirectory::Make(
    const std::string& log_dir, const RunId& run_id,
    const std::function<void(const std::filesystem::path&)>& will_be) {
  const bool temporary = log_dir.empty();
  std::filesystem::path base = log_dir;
  std::string name = run_id + "_";
  if (temporary) {
    base = GetProcessEnv("TMPDIR").value_or("/tmp");
    name = "ddprun_" + name;
  } else {
    if (const Result<void> made = MakeDirectories(base, 0777); !made) {
      return Error{ErrorKind::kInvalid, made.error().message + " (--log-dir)"};
    }
  }
  const auto nobody = [](const std::filesystem::path&) {};
  const Result<std::string> path =
      MakeUnique(std::filesystem::absolute(base) / name,
                 temporary ? will_be : std::function<void(const std::filesystem::path&)>(nobody));
  if (!path) {
    return Error{ErrorKind::kInvalid,
                 path.error().message + (temporary ? " (TMPDIR)" : " (--log-dir)")};
  }
  return RunDirectory(*path, temporary);
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
