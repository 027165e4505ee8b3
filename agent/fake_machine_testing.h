// For tests: a machine's files as the kernel shows them, in a directory that goes with the object.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "agent/workers/gpu_list.h"
#include "agent/workers/numa_binding.h"

namespace ddprun {

class FakeMachine {
 public:
  FakeMachine() {
    std::string path = (std::filesystem::temp_directory_path() / "machine_XXXXXX").native();
    root_ = ::mkdtemp(path.data());
  }
  ~FakeMachine() { std::filesystem::remove_all(root_); }
  FakeMachine(const FakeMachine&) = delete;

  MachineRoots roots() const { return {root_ / "sys", root_ / "proc", root_ / "dev"}; }

  void Write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text << "\n";
  }

  void AddNode(int node, const std::string& cpus) {
    online_ += (online_.empty() ? "" : ",") + std::to_string(node);
    Write("sys/devices/system/node/online", online_);
    Write("sys/devices/system/node/node" + std::to_string(node) + "/cpulist", cpus);
  }

  void AddCpu(int cpu, int socket, const std::string& siblings, const std::string& last_cache) {
    const std::string base = "sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/";
    Write(base + "topology/physical_package_id", std::to_string(socket));
    Write(base + "topology/thread_siblings_list", siblings);
    AddCache(base + "cache/index0/", "Data", 1, siblings);
    AddCache(base + "cache/index1/", "Instruction", 1, siblings);
    AddCache(base + "cache/index2/", "Unified", 3, last_cache);
  }

  void AddNvidia(const std::string& pci, const std::string& uuid, int numa_node) {
    Write("proc/driver/nvidia/gpus/" + pci + "/information",
          "Model: \t\t NVIDIA H100 80GB HBM3\nIRQ:   \t\t 16\nGPU UUID: \t " + uuid);
    Write("sys/bus/pci/devices/" + pci + "/numa_node", std::to_string(numa_node));
  }

  void AddOnBus(const std::string& pci, const std::string& vendor, const std::string& kind,
                int numa_node) {
    const std::string base = "sys/bus/pci/devices/" + pci + "/";
    Write(base + "vendor", vendor);
    Write(base + "class", kind);
    Write(base + "numa_node", std::to_string(numa_node));
  }

 private:
  void AddCache(const std::string& base, const std::string& type, int level,
                const std::string& shared) {
    Write(base + "type", type);
    Write(base + "level", std::to_string(level));
    Write(base + "shared_cpu_list", shared);
  }

  std::filesystem::path root_;
  std::string online_;
};

}  // namespace ddprun
