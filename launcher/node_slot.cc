#include "launcher/node_slot.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "proto/worker_env.h"

namespace ddprun {
namespace {

constexpr int kMaxSlots = 256;
constexpr std::chrono::seconds kOld{86'400};
constexpr std::size_t kMostLookedAt = 4'000;  // Entries, of one start.

// Where a directory of this user's can be, the best first. Names in /tmp can be taken by other
// users; those in the user's home cannot.
std::vector<std::filesystem::path> Places() {
  std::vector<std::filesystem::path> places;
  if (const auto runtime = GetProcessEnv("XDG_RUNTIME_DIR"); runtime && !runtime->empty()) {
    places.push_back(std::filesystem::path(*runtime) / "ddprun");
  }
  places.push_back("/tmp/ddprun-" + std::to_string(::getuid()));
  if (const auto home = GetProcessEnv("HOME"); home && home->starts_with('/')) {
    // Homes may be shared by machines.
    places.push_back(std::filesystem::path(*home) / ".cache" / "ddprun" / HostName());
  }
  return places;
}

Result<void> MakeOwn(const std::filesystem::path& directory) {
  RETURN_IF_ERROR(MakeDirectories(directory, 0700));
  RETURN_IF_ERROR(CheckOwnDirectory(directory));
  if (::access(directory.c_str(), W_OK | X_OK) != 0) {  // Root's, in a user's own place.
    return SystemError("write to the directory", directory.native(), errno);
  }
  return {};
}

// Loopback has many names: localhost, ::1, all of 127.0.0.0/8.
Endpoint MeetingOf(const Endpoint& endpoint) {
  return IsLoopback(endpoint.host) ? Endpoint{"localhost", endpoint.port} : endpoint;
}

bool IsStill(const std::filesystem::path& path, int file) {
  struct stat named;
  struct stat open;
  return ::lstat(path.c_str(), &named) == 0 && ::fstat(file, &open) == 0 &&
         named.st_dev == open.st_dev && named.st_ino == open.st_ino;
}

// Each run has its own, and it is not known when its last node has gone: removes those that were
// taken long ago and that no process holds.
void RemoveOldSlots(const std::filesystem::path& directory) {
  const std::time_t now = std::time(nullptr);
  for (const std::filesystem::path& path : EntriesOf(directory, kMostLookedAt)) {
    struct stat facts;
    if (!path.filename().native().starts_with("slot-") || ::lstat(path.c_str(), &facts) != 0 ||
        !S_ISREG(facts.st_mode) || facts.st_mtime > now - kOld.count()) {
      continue;
    }
    const UniqueFd lock(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    if (lock && ::flock(lock.get(), LOCK_EX | LOCK_NB) == 0 && IsStill(path, lock.get())) {
      ::unlink(path.c_str());
    }
  }
}

Result<NodeSlot> TakeNodeSlot(const std::string& host, const Endpoint& endpoint,
                              const RunId& run_id) {
  ASSIGN_OR_RETURN(const std::filesystem::path directory, UserDirectory());
  const std::uint64_t key = std::hash<std::string>{}(ToString(MeetingOf(endpoint)) + "/" + run_id);
  for (int slot = 0; slot < kMaxSlots; ++slot) {
    const std::filesystem::path path =
        directory / ("slot-" + Hex(key) + "-" + std::to_string(slot));
    UniqueFd lock(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!lock) {
      return SystemError("open the slot lock", path.native(), errno);
    }
    if (::flock(lock.get(), LOCK_EX | LOCK_NB) == 0) {
      if (!IsStill(path, lock.get())) {
        --slot;  // Removed meanwhile, as one of a run before.
        continue;
      }
      ::futimens(lock.get(), nullptr);
      RemoveOldSlots(directory);
      return NodeSlot{host + "#" + std::to_string(slot), std::move(lock)};
    }
    if (errno != EWOULDBLOCK) {
      return SystemError("lock", path.native(), errno);
    }
  }
  return Error{ErrorKind::kRefused, std::to_string(kMaxSlots) + " agents of the run '" + run_id +
                                        "' run on this machine already"};
}

}  // namespace

Result<std::filesystem::path> UserDirectory() {
  std::string refused;
  for (const std::filesystem::path& place : Places()) {
    const Result<void> made = MakeOwn(place);
    if (made) {
      return place;
    }
    refused += (refused.empty() ? "" : "; ") + made.error().message;
  }
  return Error{ErrorKind::kRefused, "no directory for this user's locks: " + refused +
                                        " (set XDG_RUNTIME_DIR to one that only this user can "
                                        "write to)"};
}

Result<NodeSlot> NameThisNode(const LaunchConfig& config) {
  const std::string host = HostName();
  const LaunchContext& context = config.context;
  if (context.IsPlaced() && !config.standalone) {
    return NodeSlot{
        context.node.empty() ? host + "." + std::to_string(*context.index) : context.node, {}};
  }
  if (context.joins) {
    return NodeSlot{context.node, {}};
  }
  if (config.node_rank) {
    return NodeSlot{"node" + std::to_string(*config.node_rank), {}};
  }
  if (config.standalone) {
    return NodeSlot{host, {}};
  }
  return TakeNodeSlot(host, config.endpoint, config.run_id);
}

}  // namespace ddprun
