// The machine's GPUs as the kernel shows them, and which of them a program may see. No driver
// library is loaded and no device opened, so nothing is initialised and nothing waits.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

// Where the kernel's files are; tests put a machine of their own there.
struct MachineRoots {
  std::filesystem::path sys = "/sys";
  std::filesystem::path proc = "/proc";
  std::filesystem::path dev = "/dev";
};

enum class GpuMaker { kNvidia, kAmd, kIntel };

struct Gpu {
  std::string pci;  // "0000:dc:00.0"; empty: not known (a MIG device, which only the driver knows).
  std::string uuid;   // "GPU-8f2a..."; empty: not known.
  std::string model;  // Empty: not known.
  int numa_node = 0;  // As the kernel says it; 0 where it says -1, as on machines with one node.
  GpuMaker maker = GpuMaker::kNvidia;
};

// Those of one maker: NVIDIA's, else AMD's, else Intel's for data centres. Only those that this
// process may open: a container has device files of its own GPUs, and sysfs of all.
//
// NVIDIA's: /proc/driver/nvidia/gpus and /dev/nvidia<minor>, in the order of their PCI addresses,
// which is CUDA's own for GPUs that are alike (and with CUDA_DEVICE_ORDER=PCI_BUS_ID for all).
// AMD's: nodes of KFD's topology that have SIMD units, in its order, which is ROCm's.
// Intel's: display controllers, without VGA, which is part of a CPU.
std::vector<Gpu> ListGpus(const MachineRoots& roots);

// The ones of `all` that variables leave visible to a program: CUDA_VISIBLE_DEVICES; of AMD's first
// ROCR_VISIBLE_DEVICES, then HIP_VISIBLE_DEVICES, or CUDA_VISIBLE_DEVICES where that is not set; of
// Intel's ZE_AFFINITY_MASK, whose parts of a GPU ("0.1") count as the GPU.
std::vector<Gpu> VisibleGpus(const std::vector<Gpu>& all,
                             const std::function<std::optional<std::string>(const char*)>& get_env);

// "NVIDIA"
std::string_view NameOf(GpuMaker maker);

// Those that a list like CUDA_VISIBLE_DEVICES="2,GPU-8f2a" names, in its order; none: all of them.
// As for CUDA an entry that names nothing hides the rest.
std::vector<Gpu> VisibleGpus(const std::vector<Gpu>& all, const std::optional<std::string>& list);

// The first line of a file; empty if there is none.
std::string FirstLine(const std::filesystem::path& path);

}  // namespace ddprun
