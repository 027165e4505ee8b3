#include "agent/watch/memory_kills.h"

#include <signal.h>

#include <fstream>
#include <limits>
#include <sstream>
#include <utility>
#include <vector>

#include "common/files.h"

namespace ddprun {
namespace {

constexpr std::size_t kMaxTable = 1 << 20;

std::vector<std::string> Words(const std::string& line) {
  std::istringstream words(line);
  std::vector<std::string> found;
  for (std::string word; words >> word;) {
    found.push_back(std::move(word));
  }
  return found;
}

bool HasController(const std::string& list, std::string_view name) {
  return ("," + list + ",").find("," + std::string(name) + ",") != std::string::npos;
}

// "4:memory:/group", or "0::/group" of version 2.
std::string GroupOf(std::string_view membership, bool unified) {
  std::istringstream lines{std::string(membership)};
  for (std::string line; std::getline(lines, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) {
      continue;
    }
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (unified ? controllers.empty() : HasController(controllers, "memory")) {
      return line.substr(second + 1);
    }
  }
  return "";
}

// "36 35 0:32 /root /mount/point rw,relatime ... - cgroup cgroup rw,memory": where `group` is
// seen; the last mount hides those before it.
std::string FolderOf(std::string_view mounts, const std::string& group, bool unified) {
  std::istringstream lines{std::string(mounts)};
  std::string folder;
  for (std::string line; std::getline(lines, line);) {
    const std::size_t dash = line.find(" - ");
    if (dash == std::string::npos) {
      continue;
    }
    const std::vector<std::string> place = Words(line.substr(0, dash));
    const std::vector<std::string> kind = Words(line.substr(dash + 3));
    const bool right =
        place.size() >= 5 && kind.size() >= 3 &&
        (unified ? kind[0] == "cgroup2" : kind[0] == "cgroup" && HasController(kind[2], "memory"));
    if (!right) {
      continue;
    }
    const std::string root = place[3] == "/" ? "" : place[3];
    const std::string rest = group == "/" ? "" : group;
    if (rest.starts_with(root) && (rest.size() == root.size() || rest[root.size()] == '/')) {
      folder = place[4] + rest.substr(root.size());
    }
  }
  return folder;
}

std::string OwnOomCounter() {
  const Result<std::string> membership = ReadFile("/proc/self/cgroup", kMaxTable);
  const Result<std::string> mounts = ReadFile("/proc/self/mountinfo", kMaxTable);
  return membership && mounts ? OomCounterPath(*membership, *mounts) : "";
}

}  // namespace

std::string OomCounterPath(std::string_view membership, std::string_view mounts) {
  for (const bool unified : {false, true}) {
    const std::string group = GroupOf(membership, unified);
    const std::string folder = group.empty() ? "" : FolderOf(mounts, group, unified);
    if (!folder.empty()) {
      return folder + (unified ? "/memory.events" : "/memory.oom_control");
    }
  }
  return "";
}

std::uint64_t MemoryKills() {
  std::ifstream events(OwnOomCounter());
  std::string name;
  for (std::uint64_t count = 0; events >> name >> count;) {
    if (name == "oom_kill") {
      return count;
    }
  }
  return 0;
}

std::uint64_t MemoryLimit() {
  const std::filesystem::path counter = OwnOomCounter();
  const bool unified = counter.filename() == "memory.events";
  std::ifstream file(counter.parent_path() / (unified ? "memory.max" : "memory.limit_in_bytes"));
  std::uint64_t limit = 0;
  return file >> limit ? limit : std::numeric_limits<std::uint64_t>::max();  // "max"
}

FailureDetails WithMemoryKill(FailureDetails details, const ExitStatus& status,
                              std::uint64_t before) {
  const Killed* const killed = std::get_if<Killed>(&status);
  if (killed != nullptr && killed->signal == SIGKILL && details.message.empty() &&
      MemoryKills() > before) {
    details.message = kMemoryRanOut;
  }
  return details;
}

}  // namespace ddprun
