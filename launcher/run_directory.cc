#include "launcher/run_directory.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <functional>
#include <utility>

#include "common/files.h"
#include "common/loop.h"
#include "launcher/command_line/host_places.h"
#include "proto/worker_env.h"
#include "rendezvous/control_socket.h"

namespace ddprun {
namespace {

constexpr Duration kRemovalPatience{1'000};

// As mkdtemp, but `will_be` is called with the name first.
Result<std::string> MakeUnique(const std::filesystem::path& prefix,
                               const std::function<void(const std::filesystem::path&)>& will_be) {
  constexpr int kTries = 100;
  std::string path;
  for (int i = 0; i < kTries; ++i) {
    path = prefix.native() + Hex(RandomBits());
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

// A full disk, say, takes directories but no files.
Result<void> CheckTakesFiles(const std::filesystem::path& directory) {
  constexpr std::size_t kSome = 64 * 1024;
  ASSIGN_OR_RETURN(const std::filesystem::path made,
                   WriteTemporary(directory, std::string(kSome, ' ')));
  ::unlink(made.c_str());
  return {};
}

// The parent is looked at first: a link would make the directory in another place.
Result<void> MakeBoth(const std::filesystem::path& directory) {
  RETURN_IF_ERROR(MakeDirectories(directory.parent_path(), 0700));
  RETURN_IF_ERROR(CheckOwnDirectory(directory.parent_path()));
  RETURN_IF_ERROR(MakeDirectories(directory, 0700));
  RETURN_IF_ERROR(CheckOwnDirectory(directory));
  return CheckTakesFiles(directory);
}

}  // namespace

Result<RunDirectory> RunDirectory::Make(const std::string& log_dir, bool keeps_logs,
                                        const RunId& run_id, GuardLink& guard) {
  const bool temporary = log_dir.empty() && !keeps_logs;
  std::filesystem::path base = log_dir;
  const char* flag = " (--log-dir)";
  if (log_dir.empty()) {
    base = std::filesystem::absolute(FindTemporaryPlace().path);
    flag = temporary ? " (TMPDIR)" : " (TMPDIR, or --log-dir)";
  } else if (const Result<void> made = MakeDirectories(base, 0777); !made) {
    return Error{ErrorKind::kInvalid, made.error().message + flag};
  }
  Result<std::string> path = base.native();
  if (log_dir.empty() && keeps_logs) {
    path = MakeUnique(base / "torchelastic_", [&](const auto& it) { guard.RemoveUnlessUsed(it); });
  }
  if (path) {
    const std::string name = (temporary ? "ddprun_" : "") + run_id + "_";
    path = MakeUnique(std::filesystem::absolute(*path) / name, [&](const auto& it) {
      if (temporary) {
        guard.RemoveWhenGone(it);
      }
    });
  }
  if (!path) {
    return Error{ErrorKind::kInvalid, path.error().message + flag};
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
    std::error_code ignored;  // A directory that cannot be removed is in the temporary directory
                              // anyway.
    if (temporary) {
      std::filesystem::remove_all(path, ignored);
    } else {
      std::filesystem::remove(path / kControlSocket, ignored);
    }
  });
}

Result<void> MakeOwnDirectory(const std::filesystem::path& directory) {
  constexpr int kTries = 10;
  Result<void> made = MakeBoth(directory);
  // Another job that ends may have removed the parent in between.
  for (int i = 1; i < kTries && !made; ++i) {
    made = MakeBoth(directory);
  }
  if (!made) {  // These remove empty directories alone.
    ::rmdir(directory.c_str());
    ::rmdir(directory.parent_path().c_str());
  }
  return made;
}

// The step's next program may look for the directory meanwhile: it finds all of it or nothing.
void RemoveOwnDirectory(const std::filesystem::path& directory) {
  FinishesWithin(kRemovalPatience, [directory] {
    std::error_code left;
    const std::filesystem::path aside = directory.parent_path() / (".old-" + Hex(RandomBits()));
    std::filesystem::rename(directory, aside, left);
    std::filesystem::remove_all(left ? directory : aside, left);
    ::rmdir(directory.parent_path().c_str());
  });
}

std::filesystem::path EvidencePlace(const std::string& run_dir, const RunDirectory& directory) {
  return !run_dir.empty()        ? std::filesystem::path(run_dir)
         : directory.temporary() ? std::filesystem::path()
                                 : directory.path();
}

}  // namespace ddprun
