#include "agent/workers/memory_room.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string>

namespace ddprun {
namespace {

// Pages of files that were not read lately are given up first: they count as free.
std::optional<std::uint64_t> RoomIn(const std::filesystem::path& folder, bool unified) {
  const auto limit = NumberIn(folder / (unified ? "memory.max" : "memory.limit_in_bytes"));
  const auto used = NumberIn(folder / (unified ? "memory.current" : "memory.usage_in_bytes"));
  if (!limit || !used) {
    return std::nullopt;
  }
  const std::uint64_t given_up =
      NumberAfter(folder / "memory.stat", unified ? "inactive_file" : "total_inactive_file")
          .value_or(0);
  const std::uint64_t held = *used - std::min(*used, given_up);
  return *limit - std::min(*limit, held);
}

}  // namespace

std::optional<std::uint64_t> MemoryRoom(const MemoryFiles& files) {
  std::optional<std::uint64_t> least = NumberAfter(files.proc / "meminfo", "MemAvailable:");
  least = least ? std::optional(*least * 1024) : least;
  if (!files.cgroup) {
    return least;
  }
  for (const std::filesystem::path& folder : FoldersOf(*files.cgroup)) {
    if (const auto room = RoomIn(folder, files.cgroup->unified)) {
      least = std::min(least.value_or(*room), *room);
    }
  }
  return least;
}

std::string WhyNoRoom(std::uint64_t bytes, const MemoryFiles& files) {
  const std::optional<std::uint64_t> room = MemoryRoom(files);
  if (room && *room < bytes) {
    return std::to_string(bytes >> 20) + " MiB of memory are needed, but only " +
           std::to_string(*room >> 20) + " are free";
  }
  std::ifstream pressure(files.proc / "pressure/memory");
  std::string some;
  std::string average;  // "avg10=0.00": per cent of the last 10 s.
  constexpr std::size_t kName = 6;
  if (pressure >> some >> average && average.size() > kName &&
      std::strtod(average.c_str() + kName, nullptr) >= 1) {
    return "processes wait for memory";
  }
  return "";
}

}  // namespace ddprun
