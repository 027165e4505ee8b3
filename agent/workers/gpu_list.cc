#include "agent/workers/gpu_list.h"

#include <algorithm>
#include <charconv>
#include <sstream>

#include "common/files.h"

namespace ddprun {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostOfFile = 4'096;  // As files in /sys have at most.

std::string Trimmed(const std::string& text) {
  const std::size_t begin = text.find_first_not_of(" \t\r\n");
  return begin == std::string::npos
             ? ""
             : text.substr(begin, text.find_last_not_of(" \t\r\n") - begin + 1);
}

std::vector<std::string> NamesIn(const fs::path& directory) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
    names.push_back(it->path().filename().native());
  }
  std::sort(names.begin(), names.end());  // PCI addresses have fixed width.
  return names;
}

int NumaNodeOf(const MachineRoots& roots, const std::string& pci) {
  const std::string text = FirstLine(roots.sys / "bus/pci/devices" / pci / "numa_node");
  int node = 0;
  std::from_chars(text.data(), text.data() + text.size(), node);
  return std::max(node, 0);
}

// "Model: \t\t NVIDIA H100" among the lines of the driver's file.
Gpu ReadNvidia(const MachineRoots& roots, const std::string& pci) {
  Gpu gpu{.pci = pci, .numa_node = NumaNodeOf(roots, pci)};
  const auto text = ReadFile(roots.proc / "driver/nvidia/gpus" / pci / "information", kMostOfFile);
  std::istringstream file(text ? *text : "");
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(':');
    const std::string key = Trimmed(line.substr(0, colon));
    const std::string value = colon == std::string::npos ? "" : Trimmed(line.substr(colon + 1));
    if (key == "Model") {
      gpu.model = value;
    } else if (key == "GPU UUID") {
      gpu.uuid = value;
    }
  }
  return gpu;
}

// Display and processing controllers of one maker.
std::vector<Gpu> OnTheBus(const MachineRoots& roots, const std::string& vendor,
                          const std::string& maker) {
  std::vector<Gpu> gpus;
  for (const std::string& pci : NamesIn(roots.sys / "bus/pci/devices")) {
    const fs::path device = roots.sys / "bus/pci/devices" / pci;
    const std::string kind = FirstLine(device / "class");
    if (FirstLine(device / "vendor") == vendor &&
        (kind.starts_with("0x0300") || kind.starts_with("0x0302") || kind.starts_with("0x0380") ||
         kind.starts_with("0x1200"))) {
      gpus.push_back({.pci = pci, .model = maker, .numa_node = NumaNodeOf(roots, pci)});
    }
  }
  return gpus;
}

}  // namespace

std::string FirstLine(const fs::path& path) {
  const Result<std::string> text = ReadFile(path, kMostOfFile);
  return text ? Trimmed(text->substr(0, text->find('\n'))) : "";
}

std::vector<Gpu> ListGpus(const MachineRoots& roots) {
  std::vector<Gpu> gpus;
  std::error_code ignored;
  // A container's part of the driver's files names its own GPUs alone; sysfs would name them all.
  for (const std::string& pci : NamesIn(roots.proc / "driver/nvidia/gpus")) {
    gpus.push_back(ReadNvidia(roots, pci));
  }
  if (gpus.empty() && fs::exists(roots.dev / "nvidiactl", ignored)) {
    gpus = OnTheBus(roots, "0x10de", "NVIDIA");
  }
  if (gpus.empty() && fs::exists(roots.dev / "kfd", ignored)) {
    gpus = OnTheBus(roots, "0x1002", "AMD");
  }
  return gpus;
}

std::vector<Gpu> VisibleGpus(const std::vector<Gpu>& all, const std::optional<std::string>& list) {
  if (!list) {
    return all;
  }
  std::vector<Gpu> visible;
  std::stringstream stream(*list);
  for (std::string entry; std::getline(stream, entry, ',');) {
    entry = Trimmed(entry);
    const bool mig = entry.starts_with("MIG-");
    std::string uuid = mig ? entry.substr(4, entry.find('/') - 4) : entry;
    std::size_t index = all.size();
    const char* const end = entry.data() + entry.size();
    const auto [parsed, error] = std::from_chars(entry.data(), end, index);
    const bool number = error == std::errc{} && parsed == end;
    const auto found = number
                           ? all.begin() + static_cast<std::ptrdiff_t>(std::min(index, all.size()))
                           : std::find_if(all.begin(), all.end(), [&](const Gpu& gpu) {
                               return uuid.starts_with("GPU-") && gpu.uuid.starts_with(uuid);
                             });
    if (found != all.end()) {
      visible.push_back(*found);
    } else if (mig) {
      visible.push_back({.uuid = entry});
    } else {
      break;
    }
  }
  return visible;
}

}  // namespace ddprun
