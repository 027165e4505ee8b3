// The machine's GPUs as the kernel shows them, and which of them a program may see. No driver
// library is loaded and no device opened, so nothing is initialised and nothing waits.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace ddprun {

// Where the kernel's files are; tests put a machine of their own there.
struct MachineRoots {
  std::filesystem::path sys = "/sys";
  std::filesystem::path proc = "/proc";
  std::filesystem::path dev = "/dev";
};

struct Gpu {
  std::string pci;  // "0000:dc:00.0"; empty: not known (a MIG device, which only the driver knows).
  std::string uuid;   // "GPU-8f2a..."; empty: not known.
  std::string model;  // Empty: not known.
  int numa_node = 0;  // As the kernel says it; 0 where it says -1, as on machines with one node.
};

// In the order of their PCI addresses, which is CUDA's own for GPUs that are alike (and with
// CUDA_DEVICE_ORDER=PCI_BUS_ID for all).
std::vector<Gpu> ListGpus(const MachineRoots& roots);

// Those that a list like CUDA_VISIBLE_DEVICES="2,GPU-8f2a" names, in its order; none: all of them.
// As for CUDA an entry that names nothing hides the rest.
std::vector<Gpu> VisibleGpus(const std::vector<Gpu>& all, const std::optional<std::string>& list);

// The first line of a file; empty if there is none.
std::string FirstLine(const std::filesystem::path& path);

}  // namespace ddprun
