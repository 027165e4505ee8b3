#include "launcher/command_line/gpus.h"

#include <stdlib.h>

#include <algorithm>
#include <set>
#include <vector>

#include "common/text.h"

namespace ddprun {
namespace {

// Those that CUDA shows: an invalid one hides the rest.
std::vector<std::string> ShownBy(const std::string& list) {
  std::vector<std::string> entries = Split(list, ',');
  const auto hidden = std::ranges::find_if(entries, [](const std::string& entry) {
    return entry.empty() || entry.front() == '-' || entry == "NoDevFiles";
  });
  entries.erase(hidden, entries.end());
  return entries;
}

// "GPU-8f2a", "MIG-8f2a", "MIG-GPU-8f2a/1/0"; CUDA takes their beginnings too.
bool IsUuid(const std::string& entry) {
  constexpr std::size_t kPrefix = 4;
  return (entry.starts_with("GPU-") || entry.starts_with("MIG-")) && entry.size() > kPrefix &&
         HasOnly(entry, "-/");
}

}  // namespace

GpusCounted CountGpus(const MachineRoots& roots, const GetEnv& get_env) {
  const std::vector<Gpu> all = ListGpus(roots);
  if (!all.empty()) {
    return {static_cast<std::uint32_t>(VisibleGpus(all, get_env).size()),
            std::string(NameOf(all.front().maker))};
  }
  // No files of a driver that is known here, as in WSL: the list is believed.
  const auto visible = get_env("CUDA_VISIBLE_DEVICES");
  return {visible ? static_cast<std::uint32_t>(ShownBy(*visible).size()) : 0, "listed"};
}

std::uint32_t CountDevices() {
  return static_cast<std::uint32_t>(ListGpus(MachineRoots{}).size());
}

Result<std::string> ChooseGpus(const std::string& text, const std::optional<std::string>& visible,
                               std::uint32_t devices) {
  const std::vector<std::string> seen = ShownBy(visible.value_or(""));
  std::set<std::string> chosen;
  std::string list;
  for (std::string entry : Split(text + ",", ',')) {
    const std::optional<std::uint32_t> number = ParseNumber<std::uint32_t>(entry);
    if (!IsUuid(entry) && !number) {
      return Invalid("--gpu-ids must be numbers or UUIDs (GPU-..., MIG-...) with commas", text);
    }
    const std::size_t there = visible ? seen.size() : devices;
    if (number && (visible || devices != 0) && *number >= there) {
      return Error{ErrorKind::kNotFound,
                   "--gpu-ids=" + text + ": there is no GPU " + entry + " here: " +
                       (visible ? "the list of those that ddprun may see, '" + *visible + "', has "
                                : "this node has ") +
                       std::to_string(there) + ", counted from 0" + PerhapsACount(text) +
                       " [no-such-gpu]"};
    }
    if (number) {
      entry = visible ? seen[*number] : std::to_string(*number);  // "01" is 1.
    }
    if (!chosen.insert(entry).second) {
      return Invalid("--gpu-ids names a GPU twice", text);
    }
    list += (list.empty() ? "" : ",") + entry;
  }
  return list;
}

std::string PerhapsACount(const std::string& text) {
  const std::optional<std::uint32_t> number = ParseNumber<std::uint32_t>(text);
  return number && *number > 0 ? "; for " + text + (*number == 1 ? " worker" : " workers") +
                                     " set --nproc-per-node=" + text
                               : "";
}

std::optional<std::string> VisibleGpuList() {
  const auto hip = GetProcessEnv("HIP_VISIBLE_DEVICES");
  return hip && !hip->empty() ? hip : GetProcessEnv("CUDA_VISIBLE_DEVICES");
}

void ShowOnlyGpus(const std::string& list) {
  if (const auto hip = GetProcessEnv("HIP_VISIBLE_DEVICES"); hip && !hip->empty()) {
    ::setenv("HIP_VISIBLE_DEVICES", list.c_str(), 1);
  }
  ::setenv("CUDA_VISIBLE_DEVICES", list.c_str(), 1);
}

}  // namespace ddprun
