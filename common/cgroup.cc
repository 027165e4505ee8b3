#include "common/cgroup.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>
#include <utility>

#include "common/files.h"
#include "common/text.h"

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
std::string GroupOf(std::string_view membership, std::string_view controller, bool unified) {
  for (const std::string& line : Split(membership, '\n')) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) {
      continue;
    }
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (unified ? controllers.empty() : HasController(controllers, controller)) {
      return line.substr(second + 1);
    }
  }
  return "";
}

// "36 35 0:32 /root /mount/point rw,relatime ... - cgroup cgroup rw,memory": where `group` is
// seen; the last mount hides those before it.
std::optional<Cgroup> PlaceOf(std::string_view mounts, const std::string& group,
                              std::string_view controller, bool unified) {
  std::optional<Cgroup> found;
  for (const std::string& line : Split(mounts, '\n')) {
    const std::size_t dash = line.find(" - ");
    if (dash == std::string::npos) {
      continue;
    }
    const std::vector<std::string> place = Words(line.substr(0, dash));
    const std::vector<std::string> kind = Words(line.substr(dash + 3));
    const bool right = place.size() >= 5 && kind.size() >= 3 &&
                       (unified ? kind[0] == "cgroup2"
                                : kind[0] == "cgroup" && HasController(kind[2], controller));
    if (!right) {
      continue;
    }
    const std::string root = place[3] == "/" ? "" : place[3];
    const std::string rest = group == "/" ? "" : group;
    if (rest.starts_with(root) && (rest.size() == root.size() || rest[root.size()] == '/')) {
      found = Cgroup{place[4] + rest.substr(root.size()), place[4], unified};
    }
  }
  return found;
}

// "800000 100000" and "max 100000" of version 2; two files of version 1, -1 for none.
std::optional<double> QuotaIn(const std::filesystem::path& folder, bool unified) {
  double quota = 0;
  double period = 0;
  if (unified) {
    std::ifstream(folder / "cpu.max") >> quota >> period;
  } else {
    std::ifstream(folder / "cpu.cfs_quota_us") >> quota;
    std::ifstream(folder / "cpu.cfs_period_us") >> period;
  }
  return quota > 0 && period > 0 ? std::optional(quota / period) : std::nullopt;
}

}  // namespace

std::optional<Cgroup> FindCgroup(std::string_view membership, std::string_view mounts,
                                 std::string_view controller) {
  for (const bool unified : {false, true}) {
    const std::string group = GroupOf(membership, controller, unified);
    if (group.empty()) {
      continue;
    }
    if (std::optional<Cgroup> found = PlaceOf(mounts, group, controller, unified)) {
      return found;
    }
  }
  return std::nullopt;
}

std::optional<Cgroup> OwnCgroup(std::string_view controller) {
  const Result<std::string> membership = ReadFile("/proc/self/cgroup", kMaxTable);
  const Result<std::string> mounts = ReadFile("/proc/self/mountinfo", kMaxTable);
  return membership && mounts ? FindCgroup(*membership, *mounts, controller) : std::nullopt;
}

std::vector<std::filesystem::path> FoldersOf(const Cgroup& cgroup) {
  std::vector<std::filesystem::path> folders{cgroup.folder};
  while (folders.back() != cgroup.top && folders.back() != folders.back().parent_path()) {
    folders.push_back(folders.back().parent_path());
  }
  return folders;
}

std::optional<std::uint64_t> NumberIn(const std::filesystem::path& file) {
  std::uint64_t number = 0;
  return std::ifstream(file) >> number ? std::optional(number) : std::nullopt;
}

std::optional<std::uint64_t> NumberAfter(const std::filesystem::path& file,
                                         const std::string& word) {
  std::ifstream words(file);
  for (std::string next; words >> next;) {
    if (std::uint64_t number = 0; next == word && words >> number) {
      return number;
    }
  }
  return std::nullopt;
}

std::optional<double> CpuQuota(const Cgroup& cgroup) {
  std::optional<double> least;
  for (const std::filesystem::path& folder : FoldersOf(cgroup)) {
    if (const std::optional<double> quota = QuotaIn(folder, cgroup.unified)) {
      least = std::min(least.value_or(*quota), *quota);
    }
  }
  return least;
}

std::size_t WithinCpuQuota(std::size_t cpus) {
  const std::optional<Cgroup> own = OwnCgroup("cpu");
  const std::optional<double> quota = own ? CpuQuota(*own) : std::nullopt;
  if (!quota || *quota >= static_cast<double>(cpus)) {
    return std::max<std::size_t>(cpus, 1);
  }
  return std::max<std::size_t>(static_cast<std::size_t>(std::floor(*quota)), 1);
}

}  // namespace ddprun
