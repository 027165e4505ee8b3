#include "trainer/extras/staging.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <thread>

#include "common/files.h"
#include "common/ids.h"
#include "trainer/checkpoint/digest.h"

namespace ddprun {
namespace {

namespace fs = std::filesystem;
using std::chrono_literals::operator""ms;

constexpr auto kLook = 20ms;

struct Originals {
  std::string key;  // Changes when a file does, as far as its name, size and time tell.
  std::vector<std::uintmax_t> sizes;
};

Result<Originals> LookAt(const StagePlan& plan) {
  Originals originals;
  std::string facts = fs::absolute(plan.source).lexically_normal().string();
  for (const std::string& name : plan.files) {
    const fs::path path = plan.source / name;
    struct stat status {};
    if (stat(path.c_str(), &status) != 0) {
      return SystemError("stage the data file", path.string(), errno);
    }
    originals.sizes.push_back(static_cast<std::uintmax_t>(status.st_size));
    facts += '\n' + name;
    for (const auto number : {status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec}) {
      facts += ' ' + std::to_string(number);
    }
  }
  originals.key = plan.name + "-" + Hex(Digest(facts));
  return originals;
}

Error CannotStage(const StagePlan& plan, const std::string& what, const std::error_code& error) {
  return {ErrorKind::kSystem, "cannot stage " + plan.name + " in '" + plan.directory.string() +
                                  "' (--stage-dir): " + what + ": " + error.message()};
}

// The ranks train on what they find there.
Result<void> CheckTrusted(const StagePlan& plan, const fs::path& directory) {
  std::error_code ignored;  // A link to a directory of one's own is fine.
  const fs::path real = fs::canonical(directory, ignored);
  if (const Result<void> own = CheckOwnDirectory(real.empty() ? directory : real); !own) {
    return Error{ErrorKind::kInvalid, "cannot stage " + plan.name + ": " + own.error().message +
                                          ". Set --stage-dir to a directory of your own, which "
                                          "need not exist yet, or chmod go-w it"};
  }
  return {};
}

// A power cut may leave the name of a copy without what was in it.
bool IsWhole(const StagePlan& plan, const Originals& originals, const fs::path& copy) {
  for (std::size_t i = 0; i < plan.files.size(); ++i) {
    std::error_code error;
    if (fs::file_size(copy / plan.files[i], error) != originals.sizes[i] || error) {
      return false;
    }
  }
  return true;
}

// Durable before it has its name, since nobody looks at more than the sizes later on.
Result<void> Copy(const StagePlan& plan, const Originals& originals, const fs::path& temporary,
                  const fs::path& final_path) {
  std::error_code error;
  fs::remove_all(temporary, error);  // Of a crash.
  for (const std::string& name : plan.files) {
    const fs::path to = temporary / name;
    fs::create_directories(to.parent_path(), error);
    if (error || !fs::copy_file(plan.source / name, to, error)) {
      return CannotStage(plan, name, error);
    }
    RETURN_IF_ERROR(SyncPath(to));
    RETURN_IF_ERROR(SyncPath(to.parent_path()));
  }
  RETURN_IF_ERROR(SyncPath(temporary));
  if (!IsWhole(plan, originals, temporary)) {
    return CannotStage(plan, "the files changed while they were copied",
                       std::make_error_code(std::errc::resource_unavailable_try_again));
  }
  fs::remove_all(final_path, error);  // Not whole.
  fs::rename(temporary, final_path, error);
  if (error) {
    return CannotStage(plan, "renaming", error);
  }
  return SyncPath(plan.directory);
}

Result<void> CopyUnderLock(const StagePlan& plan, const Originals& originals,
                           const std::function<void(const std::string&)>& say) {
  RETURN_IF_ERROR(MakeDirectories(plan.directory, 0755));
  RETURN_IF_ERROR(CheckTrusted(plan, plan.directory));
  const std::string& key = originals.key;
  const fs::path lock_path = plan.directory / (".lock-" + key);
  const UniqueFd lock(open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644));
  if (!lock || flock(lock.get(), LOCK_EX) != 0) {
    return SystemError("lock", lock_path.string(), errno);
  }
  if (IsWhole(plan, originals, plan.directory / key)) {
    return CheckTrusted(plan, plan.directory / key);
  }
  say("copying " + plan.name + " from " + plan.source.string() + " to " +
      (plan.directory / key).string());
  return Copy(plan, originals, plan.directory / (".part-" + key), plan.directory / key);
}

}  // namespace

Result<fs::path> Stage(const StagePlan& plan, bool copies,
                       const std::function<void(const std::string&)>& say) {
  ASSIGN_OR_RETURN(const Originals originals, LookAt(plan));
  const fs::path staged = plan.directory / originals.key;
  if (copies) {
    RETURN_IF_ERROR(CopyUnderLock(plan, originals, say));
    return staged;
  }
  if (!IsWhole(plan, originals, staged)) {
    say("waiting for local rank 0 to copy " + plan.name + " to " + staged.string());
  }
  while (!IsWhole(plan, originals, staged)) {
    std::this_thread::sleep_for(kLook);
  }
  RETURN_IF_ERROR(CheckTrusted(plan, plan.directory));
  RETURN_IF_ERROR(CheckTrusted(plan, staged));
  return staged;
}

}  // namespace ddprun
