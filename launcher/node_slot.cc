#include "launcher/node_slot.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <functional>

#include "proto/worker_env.h"

namespace ddprun {
namespace {

constexpr int kMaxSlots = 256;

}  // namespace

Result<std::filesystem::path> UserDirectory() {
  std::filesystem::path directory;
  if (const auto runtime = GetProcessEnv("XDG_RUNTIME_DIR"); runtime && !runtime->empty()) {
    directory = std::filesystem::path(*runtime) / "ddprun";
  } else {
    directory = "/tmp/ddprun-" + std::to_string(::getuid());
  }
  RETURN_IF_ERROR(MakeDirectories(directory, 0700));
  struct stat info {};
  if (::lstat(directory.c_str(), &info) != 0) {
    return SystemError("look at", directory.native(), errno);
  }
  if (!S_ISDIR(info.st_mode) || info.st_uid != ::getuid() || (info.st_mode & 022) != 0) {
    return Error{ErrorKind::kRefused, "the directory '" + directory.native() +
                                          "' must be a directory that only this user can write "
                                          "to: remove it, or set XDG_RUNTIME_DIR"};
  }
  return directory;
}

Result<NodeSlot> TakeNodeSlot(const std::string& host, const Endpoint& endpoint,
                              const RunId& run_id) {
  ASSIGN_OR_RETURN(const std::filesystem::path directory, UserDirectory());
  const std::uint64_t key = std::hash<std::string>{}(ToString(endpoint) + "/" + run_id);
  for (int slot = 0; slot < kMaxSlots; ++slot) {
    const std::filesystem::path path =
        directory / ("slot-" + Hex(key) + "-" + std::to_string(slot));
    UniqueFd lock(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!lock) {
      return SystemError("open the slot lock", path.native(), errno);
    }
    if (::flock(lock.get(), LOCK_EX | LOCK_NB) == 0) {
      return NodeSlot{host + "#" + std::to_string(slot), std::move(lock)};
    }
    if (errno != EWOULDBLOCK) {
      return SystemError("lock", path.native(), errno);
    }
  }
  return Error{ErrorKind::kRefused, std::to_string(kMaxSlots) + " agents of the run '" + run_id +
                                        "' are on this machine already"};
}

}  // namespace ddprun
