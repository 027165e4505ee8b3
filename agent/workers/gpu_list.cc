#include "agent/workers/gpu_list.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <map>

#include "common/files.h"
#include "common/text.h"

namespace ddprun {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostOfFile = 4'096;  // As files in /sys have at most.

std::vector<std::string> NamesIn(const fs::path& directory) {
  std::vector<std::string> names;
  for (const fs::path& path : EntriesOf(directory)) {
    names.push_back(path.filename().native());
  }
  std::sort(names.begin(), names.end());  // PCI addresses have fixed width.
  return names;
}

int NumaNodeOf(const MachineRoots& roots, const std::string& pci) {
  const std::string text = FirstLine(roots.sys / "bus/pci/devices" / pci / "numa_node");
  return std::max(ParseNumber<int>(text).value_or(0), 0);
}

bool MayOpen(const fs::path& device) {
  return ::access(device.c_str(), R_OK | W_OK) == 0;
}

// "key value" or "key: value" of each line.
std::map<std::string, std::string> PairsIn(const fs::path& path, char between) {
  std::map<std::string, std::string> pairs;
  const Result<std::string> text = ReadFile(path, kMostOfFile);
  for (const std::string& line : Split(text ? *text : "", '\n')) {
    if (const std::size_t at = line.find(between); at != std::string::npos) {
      pairs[std::string(Trimmed(line.substr(0, at)))] = Trimmed(line.substr(at + 1));
    }
  }
  return pairs;
}

std::uint64_t Number(const std::map<std::string, std::string>& pairs, const std::string& key) {
  std::uint64_t value = 0;
  if (const auto found = pairs.find(key); found != pairs.end()) {
    std::from_chars(found->second.data(), found->second.data() + found->second.size(), value);
  }
  return value;
}

std::string Hexadecimal(std::uint64_t number, std::size_t digits) {
  char text[17];
  std::snprintf(text, sizeof text, "%0*llx", static_cast<int>(digits),
                static_cast<unsigned long long>(number));
  return text;
}

// Display and processing controllers of one maker.
std::vector<Gpu> OnTheBus(const MachineRoots& roots, const std::string& vendor, GpuMaker maker) {
  std::vector<Gpu> gpus;
  for (const std::string& pci : NamesIn(roots.sys / "bus/pci/devices")) {
    const fs::path device = roots.sys / "bus/pci/devices" / pci;
    const std::string kind = FirstLine(device / "class");
    const bool vga = kind.starts_with("0x0300");
    const bool display = (vga && maker != GpuMaker::kIntel) || kind.starts_with("0x0302") ||
                         kind.starts_with("0x0380") || kind.starts_with("0x1200");
    if (display && FirstLine(device / "vendor") == vendor) {
      gpus.push_back({.pci = pci,
                      .model = std::string(NameOf(maker)),
                      .numa_node = NumaNodeOf(roots, pci),
                      .maker = maker});
    }
  }
  return gpus;
}

std::vector<Gpu> NvidiaGpus(const MachineRoots& roots) {
  std::vector<Gpu> gpus;
  std::size_t devices = 0;
  for (const std::string& name : NamesIn(roots.dev)) {
    constexpr std::string_view kPrefix = "nvidia";
    devices += name.starts_with(kPrefix) && IsDigits(name.substr(kPrefix.size())) ? 1 : 0;
  }
  for (const std::string& pci : NamesIn(roots.proc / "driver/nvidia/gpus")) {
    const auto pairs = PairsIn(roots.proc / "driver/nvidia/gpus" / pci / "information", ':');
    const auto value = [&](const char* key) {
      const auto found = pairs.find(key);
      return found == pairs.end() ? std::string() : found->second;
    };
    const std::string minor = value("Device Minor");
    if (devices > 0 && !minor.empty() && !fs::exists(roots.dev / ("nvidia" + minor))) {
      continue;
    }
    gpus.push_back({.pci = pci,
                    .uuid = value("GPU UUID"),
                    .model = value("Model"),
                    .numa_node = NumaNodeOf(roots, pci)});
  }
  if (gpus.empty() && (devices > 0 || fs::exists(roots.dev / "nvidiactl"))) {
    gpus = OnTheBus(roots, "0x10de", GpuMaker::kNvidia);
    if (devices > 0 && gpus.size() != devices) {  // Which of them, nothing tells.
      gpus.assign(devices, {.model = "NVIDIA"});
    }
  }
  return gpus;
}

std::vector<Gpu> AmdGpus(const MachineRoots& roots) {
  std::vector<Gpu> gpus;
  const fs::path nodes = roots.sys / "class/kfd/kfd/topology/nodes";
  std::map<std::uint64_t, std::map<std::string, std::string>> in_order;
  for (const std::string& name : NamesIn(nodes)) {
    in_order[Number({{"", name}}, "")] = PairsIn(nodes / name / "properties", ' ');
  }
  for (const auto& [number, node] : in_order) {
    const std::string render = "renderD" + std::to_string(Number(node, "drm_render_minor"));
    if (Number(node, "simd_count") == 0 || !MayOpen(roots.dev / "dri" / render)) {
      continue;
    }
    const std::uint64_t place = Number(node, "location_id");  // Bus, device and function.
    const std::string pci = Hexadecimal(Number(node, "domain"), 4) + ":" +
                            Hexadecimal(place >> 8, 2) + ":" + Hexadecimal(place >> 3 & 31, 2) +
                            "." + Hexadecimal(place & 7, 1);
    const std::uint64_t id = Number(node, "unique_id");
    gpus.push_back({.pci = pci,
                    .uuid = id == 0 ? "" : "GPU-" + Hexadecimal(id, 16),
                    .model = "AMD",
                    .numa_node = NumaNodeOf(roots, pci),
                    .maker = GpuMaker::kAmd});
  }
  return gpus;
}

std::vector<Gpu> IntelGpus(const MachineRoots& roots) {
  std::vector<Gpu> gpus = OnTheBus(roots, "0x8086", GpuMaker::kIntel);
  std::erase_if(gpus, [&](const Gpu& gpu) {
    for (const std::string& name : NamesIn(roots.sys / "bus/pci/devices" / gpu.pci / "drm")) {
      if (name.starts_with("renderD") && MayOpen(roots.dev / "dri" / name)) {
        return false;
      }
    }
    return true;
  });
  return gpus;
}

}  // namespace

std::string_view NameOf(GpuMaker maker) {
  switch (maker) {
    case GpuMaker::kNvidia:
      return "NVIDIA";
    case GpuMaker::kAmd:
      return "AMD";
    case GpuMaker::kIntel:
      return "Intel";
  }
  return "";
}

std::string FirstLine(const fs::path& path) {
  const Result<std::string> text = ReadFile(path, kMostOfFile);
  return text ? std::string(Trimmed(text->substr(0, text->find('\n')))) : "";
}

std::vector<Gpu> ListGpus(const MachineRoots& roots) {
  for (const auto list : {NvidiaGpus, AmdGpus, IntelGpus}) {
    if (std::vector<Gpu> gpus = list(roots); !gpus.empty()) {
      return gpus;
    }
  }
  return {};
}

std::vector<Gpu> VisibleGpus(const std::vector<Gpu>& all, const std::optional<std::string>& list) {
  if (!list) {
    return all;
  }
  std::vector<Gpu> visible;
  for (const std::string& part : Split(*list, ',')) {
    const std::string entry(Trimmed(part));
    const bool mig = entry.starts_with("MIG-");
    std::string uuid = mig ? entry.substr(4, entry.find('/') - 4) : entry;
    const auto index = ParseNumber<std::size_t>(entry);
    const auto found = index
                           ? all.begin() + static_cast<std::ptrdiff_t>(std::min(*index, all.size()))
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

std::vector<Gpu> VisibleGpus(
    const std::vector<Gpu>& all,
    const std::function<std::optional<std::string>(const char*)>& get_env) {
  const GpuMaker maker = all.empty() ? GpuMaker::kNvidia : all.front().maker;
  if (maker == GpuMaker::kIntel) {
    std::vector<Gpu> visible;
    for (const std::string& entry : Split(get_env("ZE_AFFINITY_MASK").value_or(""), ',')) {
      for (const Gpu& gpu : VisibleGpus(all, entry.substr(0, entry.find('.')))) {
        const bool there =
            std::ranges::any_of(visible, [&](const Gpu& other) { return other.pci == gpu.pci; });
        visible.insert(visible.end(), there ? 0 : 1, gpu);
      }
    }
    return get_env("ZE_AFFINITY_MASK").value_or("").empty() ? all : visible;
  }
  if (maker == GpuMaker::kAmd) {
    auto hip = get_env("HIP_VISIBLE_DEVICES");
    hip = hip && !hip->empty() ? hip : get_env("CUDA_VISIBLE_DEVICES");
    return VisibleGpus(VisibleGpus(all, get_env("ROCR_VISIBLE_DEVICES")), hip);
  }
  return VisibleGpus(all, get_env("CUDA_VISIBLE_DEVICES"));
}

}  // namespace ddprun
