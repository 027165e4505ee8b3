#include "agent/host/machine_source.h"

#include <net/if.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "common/files.h"

namespace ddprun {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostLinks = 64;

std::vector<fs::path> EntriesOf(const fs::path& directory) {
  std::vector<fs::path> entries;
  std::error_code error;
  for (fs::directory_iterator entry(directory, error), end; !error && entry != end;
       entry.increment(error)) {
    if (entries.size() < 4 * kMostLinks) {
      entries.push_back(entry->path());
    }
  }
  std::ranges::sort(entries);
  return entries;
}

// A card that is switched on: what is no device (lo, a bridge, a container's end) has no wire.
void AddCards(const fs::path& directory, std::vector<LinkReading>& links) {
  for (const fs::path& card : EntriesOf(directory)) {
    std::error_code error;
    const unsigned long flags = std::strtoul(FirstLine(card / "flags").c_str(), nullptr, 16);
    if (fs::exists(card / "device", error) && (flags & IFF_UP) != 0 && links.size() < kMostLinks) {
      const bool up = FirstLine(card / "carrier") == "1";
      links.push_back({card.filename().native(), up, up ? "up" : "no carrier", false});
    }
  }
}

void AddPorts(const fs::path& directory, std::vector<LinkReading>& links) {
  for (const fs::path& device : EntriesOf(directory)) {
    for (const fs::path& port : EntriesOf(device / "ports")) {
      const std::string state = FirstLine(port / "state");  // "4: ACTIVE"
      if (!state.empty() && links.size() < kMostLinks) {
        const bool up = state.starts_with("4");
        const bool wired = FirstLine(port / "phys_state").starts_with("5");  // "5: LinkUp"
        links.push_back(
            {device.filename().native() + "/" + port.filename().native(), up, state, wired && !up});
      }
    }
  }
}

// "full avg10=0.00 avg60=1.50 avg300=..."
std::optional<double> PressureIn(const std::string& text) {
  const std::size_t full = text.find("full ");
  const std::size_t minute = full == std::string::npos ? full : text.find("avg60=", full);
  if (minute == std::string::npos) {
    return std::nullopt;
  }
  const double percent = std::strtod(text.c_str() + minute + 6, nullptr);
  return percent >= 0 && percent <= 100 ? std::optional(percent / 100) : std::nullopt;
}

}  // namespace

KernelReadings ReadKernel(const MachineRoots& roots) {
  KernelReadings readings;
  AddCards(roots.sys / "class" / "net", readings.links);
  AddPorts(roots.sys / "class" / "infiniband", readings.links);
  if (const auto text = ReadFile(roots.proc / "pressure" / "memory", 4'096)) {
    readings.memory_pressure = PressureIn(*text);
  }
  return readings;
}

DiskReading ReadDisk(const fs::path& place) {
  DiskReading disk;
  struct statvfs space {};
  struct stat status {};
  if (::statvfs(place.c_str(), &space) != 0 || ::stat(place.c_str(), &status) != 0) {
    disk.error = std::strerror(errno);
    return disk;
  }
  disk.device = status.st_dev;
  disk.free = static_cast<std::uint64_t>(space.f_bavail) * space.f_frsize;
  disk.size = static_cast<std::uint64_t>(space.f_blocks) * space.f_frsize;
  disk.no_files_left = space.f_files != 0 && space.f_favail == 0;
  return disk;
}

}  // namespace ddprun
