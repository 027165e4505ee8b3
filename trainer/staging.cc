#include "trainer/staging.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdint>
#include <thread>

#include "common/files.h"
#include "common/ids.h"
#include "trainer/random.h"

namespace ddprun {
namespace {

namespace fs = std::filesystem;
using std::chrono_literals::operator""ms;

constexpr auto kLook = 20ms;

std::uint64_t Add(std::uint64_t hash, std::string_view text) {
  for (const char byte : text) {
    hash = Mix(hash ^ static_cast<unsigned char>(byte));
  }
  return Mix(hash ^ text.size());
}

// Changes when a file does, as far as its name, size and time tell.
Result<std::string> KeyOf(const StagePlan& plan) {
  std::uint64_t hash = Add(0, fs::absolute(plan.source).lexically_normal().string());
  for (const std::string& name : plan.files) {
    const fs::path path = plan.source / name;
    struct stat status {};
    if (stat(path.c_str(), &status) != 0) {
      return SystemError("stage the data file", path.string(), errno);
    }
    hash = Add(hash, name);
    for (const auto number : {status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec}) {
      hash = Mix(hash ^ static_cast<std::uint64_t>(number));
    }
  }
  return plan.name + "-" + Hex(hash);
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
                                          ": name one of your own, which need not exist yet "
                                          "(--stage-dir), or chmod go-w it"};
  }
  return {};
}

Result<void> Copy(const StagePlan& plan, const fs::path& temporary, const fs::path& final_path) {
  std::error_code error;
  fs::remove_all(temporary, error);  // Of a crash.
  for (const std::string& name : plan.files) {
    const fs::path to = temporary / name;
    fs::create_directories(to.parent_path(), error);
    if (error || !fs::copy_file(plan.source / name, to, error)) {
      return CannotStage(plan, name, error);
    }
  }
  fs::rename(temporary, final_path, error);
  return error ? CannotStage(plan, "renaming", error) : Result<void>();
}

Result<void> CopyUnderLock(const StagePlan& plan, const std::string& key,
                           const std::function<void(const std::string&)>& say) {
  RETURN_IF_ERROR(MakeDirectories(plan.directory, 0755));
  RETURN_IF_ERROR(CheckTrusted(plan, plan.directory));
  const fs::path lock_path = plan.directory / (".lock-" + key);
  const UniqueFd lock(open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644));
  if (!lock || flock(lock.get(), LOCK_EX) != 0) {
    return SystemError("lock", lock_path.string(), errno);
  }
  std::error_code ignored;
  if (fs::exists(plan.directory / key, ignored)) {
    return CheckTrusted(plan, plan.directory / key);
  }
  say("copying " + plan.name + " from " + plan.source.string() + " to " +
      (plan.directory / key).string());
  return Copy(plan, plan.directory / (".part-" + key), plan.directory / key);
}

}  // namespace

Result<fs::path> Stage(const StagePlan& plan, bool copies,
                       const std::function<void(const std::string&)>& say) {
  ASSIGN_OR_RETURN(const std::string key, KeyOf(plan));
  const fs::path staged = plan.directory / key;
  if (copies) {
    RETURN_IF_ERROR(CopyUnderLock(plan, key, say));
    return staged;
  }
  const auto deadline = std::chrono::steady_clock::now() + plan.patience;
  std::error_code ignored;
  if (!fs::exists(staged, ignored)) {
    say("waiting for local rank 0 to copy " + plan.name + " to " + staged.string());
  }
  while (!fs::exists(staged, ignored)) {
    if (std::chrono::steady_clock::now() > deadline) {
      return Error{ErrorKind::kUnavailable, "local rank 0 has not copied " + plan.name + " to '" +
                                                staged.string() + "' within " +
                                                std::to_string(plan.patience.count()) + " s"};
    }
    std::this_thread::sleep_for(kLook);
  }
  RETURN_IF_ERROR(CheckTrusted(plan, plan.directory));
  RETURN_IF_ERROR(CheckTrusted(plan, staged));
  return staged;
}

}  // namespace ddprun
