#include "launcher/verbs/environment_report.h"

#include <gnu/libc-version.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/version.hpp>
#include <filesystem>
#include <string_view>

#include "agent/host/interfaces.h"
#include "agent/watch/memory_kills.h"
#include "agent/workers/child_run.h"
#include "agent/workers/gpu_list.h"
#include "agent/workers/numa_binding.h"
#include "agent/workers/worker_spec.h"
#include "common/files.h"
#include "common/text.h"
#include "launcher/scrub.h"

namespace ddprun {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kItemLabel = 26;
constexpr Duration kLoaderLimit{10'000};

std::string Item(const std::string& label, const std::string& text) {
  return "  " + label +
         std::string(label.size() < kItemLabel ? kItemLabel - label.size() : 1, ' ') + text + "\n";
}

std::vector<fs::path> Entries(const fs::path& directory, const std::string& prefix) {
  std::vector<fs::path> found;
  for (fs::path& path : EntriesOf(directory)) {
    if (path.filename().native().starts_with(prefix)) {
      found.push_back(std::move(path));
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

// "torch-2.15.0.dist-info" -> "2.15.0": the version of the directory that pip left beside the
// package.
std::string PackageVersion(const fs::path& site, const std::string& package) {
  for (const fs::path& path : Entries(site, package + "-")) {
    std::string name = path.filename().native().substr(package.size() + 1);
    if (const std::size_t end = name.find(".dist-info"); end != std::string::npos) {
      return name.substr(0, end);
    }
  }
  return "";
}

std::string Torch(const fs::path& site) {
  const std::string version = PackageVersion(site, "torch");
  std::error_code ignored;
  return version.empty() || !fs::is_directory(site / "torch", ignored)
             ? ""
             : "torch " + version + " in " + site.native();
}

std::vector<fs::path> SitesOf(const fs::path& python) {
  std::vector<fs::path> sites;
  const fs::path prefix = python.parent_path().parent_path();
  for (const fs::path& lib : {prefix / "lib", prefix / "local/lib", prefix / "lib64"}) {
    for (const fs::path& version : Entries(lib, "python3")) {
      sites.push_back(version / "site-packages");
      sites.push_back(version / "dist-packages");
    }
  }
  return sites;
}

// The file that the loader takes for a library of this program, as ldd finds it; empty: none.
fs::path LoadedBy(const fs::path& program, const std::string& library) {
  WorkerSpec spec;
  spec.helper = true;
  spec.command = {program.native(), {program.native()}};
  spec.environment = ProcessEnvironment();
  spec.environment["LD_TRACE_LOADED_OBJECTS"] = "1";
  std::string listed;
  (void)ChildRun().Run(spec, {.limit = kLoaderLimit, .output = [&](int, std::string_view bytes) {
                                listed += bytes;
                                return true;
                              }});
  for (const std::string& line : Split(listed, '\n')) {
    const std::string before = "\t" + library + " => ";
    if (line.starts_with(before)) {
      const fs::path found = line.substr(before.size(), line.rfind(" (") - before.size());
      return found.is_absolute() ? found.lexically_normal() : "";
    }
  }
  return "";
}

std::string Trainer() {
  std::error_code ignored;
  const fs::path path = fs::read_symlink("/proc/self/exe", ignored).parent_path() / "ddprun-train";
  if (!fs::exists(path, ignored)) {
    return "not beside ddprun";
  }
  const fs::path libtorch = LoadedBy(path, "libtorch_cpu.so");
  if (libtorch.empty()) {
    return path.native() +
           ", whose libtorch is MISSING in all its places (readelf -d shows its RUNPATH)";
  }
  // The folder may be a link into a Python environment, which knows the version.
  const fs::path torch = fs::weakly_canonical(libtorch, ignored).parent_path().parent_path();
  const std::string version = PackageVersion(torch.parent_path(), "torch");
  return path.native() + ", libtorch " + (version.empty() ? "of unknown version" : version) +
         " in " + libtorch.parent_path().native();
}

// libnccl of the system's own places, and of the Python packages `sites`.
std::string Nccl(const std::vector<fs::path>& sites) {
  for (const fs::path& site : sites) {
    for (const char* package : {"nvidia_nccl_cu13", "nvidia_nccl_cu12", "nvidia_nccl_cu11"}) {
      if (const std::string version = PackageVersion(site, package); !version.empty()) {
        return version + " in " + site.native();
      }
    }
  }
  for (const char* directory : {"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu",
                                "/usr/lib64", "/usr/local/lib", "/usr/local/cuda/lib64"}) {
    for (const fs::path& library : Entries(directory, "libnccl.so.2.")) {
      return library.native();
    }
  }
  return "none found";
}

std::string Versions() {
  utsname system{};
  ::uname(&system);
  std::string boost = BOOST_LIB_VERSION;
  std::replace(boost.begin(), boost.end(), '_', '.');
  std::string text = "versions\n" + Item("ddprun", DDPRUN_VERSION);
  text += Item("built with", "GCC " __VERSION__ ", Boost " + boost + ", gRPC " DDPRUN_GRPC_VERSION);
  text += Item("kernel", std::string(system.sysname) + " " + system.release + " " + system.machine);
  text += Item("glibc", ::gnu_get_libc_version());
  text += Item("ddprun-train", Trainer());
  std::vector<fs::path> sites;
  const Result<Interpreter> python = FindPython(GetProcessEnv, {});
  if (python) {
    sites = SitesOf(python->file);
    text += Item("Python", python->file.native() + ", because " + python->why);
  } else {
    text += Item("Python", python.error().message);
  }
  std::string torch;
  for (const fs::path& site : sites) {
    torch = torch.empty() ? Torch(site) : torch;
  }
  return text + Item("its PyTorch", torch.empty() ? "none found" : torch) +
         Item("NCCL", Nccl(sites));
}

std::string Devices() {
  const MachineRoots roots;
  const std::vector<Gpu> gpus = ListGpus(roots);
  std::string text = "GPUs\n" + Item("found", std::to_string(gpus.size()));
  if (const std::string driver = FirstLine(roots.proc / "driver/nvidia/version"); !driver.empty()) {
    text += Item("driver", driver);
  }
  for (const Gpu& gpu : gpus) {
    text += Item(gpu.pci, (gpu.model.empty() ? "unknown model" : gpu.model) +
                              (gpu.uuid.empty() ? "" : ", " + gpu.uuid) + ", NUMA node " +
                              std::to_string(gpu.numa_node));
  }
  for (const char* name : {"CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES",
                           "ZE_AFFINITY_MASK", "CUDA_DEVICE_ORDER", "NVIDIA_VISIBLE_DEVICES"}) {
    if (const auto value = GetProcessEnv(name)) {
      text += Item(name, "'" + *value + "'");
    }
  }
  return text;
}

std::string Cpus() {
  const CpuSet allowed = AllowedCpuSet();
  std::string text =
      "CPUs\n" + Item("allowed", std::to_string(allowed.size()) + " of " +
                                     std::to_string(::sysconf(_SC_NPROCESSORS_ONLN)) + ": " +
                                     RangesOf(allowed, ","));
  const fs::path nodes = "/sys/devices/system/node";
  for (const int node : ParseCpuList(FirstLine(nodes / "online"))) {
    text += Item("NUMA node " + std::to_string(node),
                 FirstLine(nodes / ("node" + std::to_string(node)) / "cpulist"));
  }
  if (const std::size_t usable = AllowedCpus(); usable < allowed.size()) {
    text += Item("cgroup's quota", std::to_string(usable) + " at a time");
  }
  if (const std::uint64_t limit = MemoryLimit();
      limit >> 40 == 0) {  // Version 1 has a huge number for none.
    text += Item("cgroup's memory", std::to_string(limit >> 20) + " MiB");
  }
  const long pages = ::sysconf(_SC_PHYS_PAGES);
  const long size = ::sysconf(_SC_PAGESIZE);
  return text + Item("memory", std::to_string(pages / 1024 * size / 1024) + " MiB");
}

std::string Limits() {
  struct Limit {
    const char* name;
    __rlimit_resource which;
    const char* unit;
  };
  constexpr std::array<Limit, 4> kLimits = {{{"open files (nofile)", RLIMIT_NOFILE, ""},
                                             {"locked memory (memlock)", RLIMIT_MEMLOCK, " bytes"},
                                             {"processes (nproc)", RLIMIT_NPROC, ""},
                                             {"core files (core)", RLIMIT_CORE, " bytes"}}};
  const auto amount = [](rlim_t value, const char* unit) {
    return value == RLIM_INFINITY ? "unlimited" : std::to_string(value) + unit;
  };
  std::string text = "limits (soft, hard)\n";
  for (const auto& [name, which, unit] : kLimits) {
    rlimit limit{};
    if (::getrlimit(which, &limit) == 0) {
      text += Item(name, amount(limit.rlim_cur, unit) + ", " + amount(limit.rlim_max, unit));
    }
  }
  return text;
}

std::string Network() {
  std::string text = "network\n" + Item("host name", HostName());
  for (const Interface& one : ListInterfaces()) {
    const std::string addresses = Joined(one.addresses, ", ");
    const std::string speed = FirstLine(fs::path("/sys/class/net") / one.name / "speed");
    text +=
        Item(one.name, (addresses.empty() ? "no address" : addresses) + (one.up ? "" : " (down)") +
                           (speed.empty() || speed.front() == '-' ? "" : ", " + speed + " Mbit/s"));
  }
  for (const fs::path& device : Entries("/sys/class/infiniband", "")) {
    text += Item(device.filename().native(), "InfiniBand or RoCE, " +
                                                 FirstLine(device / "ports/1/state") + ", " +
                                                 FirstLine(device / "ports/1/rate"));
  }
  return text;
}

std::string Variables(const std::string& title, const std::vector<std::string>& prefixes) {
  std::string text = title + "\n";
  const std::size_t empty = text.size();
  for (const auto& [name, value] : ProcessEnvironment()) {
    const bool wanted =
        std::any_of(prefixes.begin(), prefixes.end(),
                    [&name = name](const std::string& p) { return name.starts_with(p); });
    if (wanted) {
      text += Item(name, IsSecret(name) ? "*** (not shown)" : value);
    }
  }
  return text + (text.size() == empty ? "  none\n" : "");
}

}  // namespace

std::string EnvironmentReport() {
  const std::vector<std::string> scheduler = {"SLURM_", "PBS_",  "LSB_", "FLUX_",       "OMPI_",
                                              "PMI_",   "PMIX_", "SGE_", "KUBERNETES_", "JOB_"};
  const std::vector<std::string> torch = {
      "DDPRUN_",     "PET_",       "TORCHELASTIC_", "TORCH_ELASTIC_", "TORCH_NCCL_",
      "NCCL_",       "GLOO_",      "MASTER_ADDR",   "MASTER_PORT",    "OMP_",
      "PYTHON_EXEC", "WORLD_SIZE", "RANK",          "LOCAL_RANK"};
  std::string text;
  for (const std::string& section :
       {Versions(), Devices(), Cpus(), Limits(), Network(),
        Variables("scheduler's variables", scheduler),
        Variables("variables that ddprun, PyTorch or NCCL read", torch)}) {
    text += (text.empty() ? "" : "\n") + section;
  }
  return text;
}

}  // namespace ddprun
