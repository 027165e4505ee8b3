#include "agent/workers/numa_binding.h"

#include <algorithm>
#include <map>

#include "common/text.h"

namespace ddprun {
namespace {

namespace fs = std::filesystem;

int ReadNumber(const fs::path& path) {
  return ParseNumber<int>(FirstLine(path)).value_or(0);
}

struct Node {
  int number = 0;
  CpuSet cpus;  // Allowed ones.
};

class Topology {
 public:
  Topology(const MachineRoots& roots, const CpuSet& allowed)
      : cpu_(roots.sys / "devices/system/cpu") {
    const fs::path base = roots.sys / "devices/system/node";
    for (const int number : ParseCpuList(FirstLine(base / "online"))) {
      Node node{.number = number};
      for (const int cpu :
           ParseCpuList(FirstLine(base / ("node" + std::to_string(number)) / "cpulist"))) {
        if (allowed.contains(cpu)) {
          node.cpus.insert(cpu);
        }
      }
      known_ = true;
      if (!node.cpus.empty()) {  // Other nodes have memory alone, or CPUs that this process may not
                                 // use.
        nodes_.push_back(std::move(node));
      }
    }
    if (nodes_.empty()) {
      known_ = false;
      nodes_.push_back({.cpus = allowed});
    }
  }

  bool known() const { return known_; }
  const std::vector<Node>& nodes() const { return nodes_; }

  CpuSet SocketOf(const Node& node) const {
    const int socket = Package(*node.cpus.begin());
    CpuSet cpus;
    for (const Node& other : nodes_) {
      if (Package(*other.cpus.begin()) == socket) {
        cpus.insert(other.cpus.begin(), other.cpus.end());
      }
    }
    return cpus;
  }

  // The allowed CPUs of `node` by core, in the order of their lowest CPUs.
  std::vector<CpuSet> Cores(const Node& node) const {
    return Groups(node, [this](int cpu) {
      return ParseCpuList(FirstLine(Directory(cpu) / "topology/thread_siblings_list"));
    });
  }

  // By last-level cache, the largest first.
  std::vector<CpuSet> Caches(const Node& node) const {
    std::vector<CpuSet> caches = Groups(node, [this](int cpu) { return LastLevelCache(cpu); });
    std::stable_sort(caches.begin(), caches.end(),
                     [](const CpuSet& a, const CpuSet& b) { return a.size() > b.size(); });
    return caches;
  }

 private:
  fs::path Directory(int cpu) const { return cpu_ / ("cpu" + std::to_string(cpu)); }
  int Package(int cpu) const { return ReadNumber(Directory(cpu) / "topology/physical_package_id"); }

  CpuSet LastLevelCache(int cpu) const {
    CpuSet shared;
    int highest = 0;
    for (int index = 0;; ++index) {
      const fs::path cache = Directory(cpu) / ("cache/index" + std::to_string(index));
      const std::string type = FirstLine(cache / "type");
      if (type.empty()) {
        return shared;
      }
      const int level = ReadNumber(cache / "level");
      if (level > highest && type != "Instruction") {
        highest = level;
        shared = ParseCpuList(FirstLine(cache / "shared_cpu_list"));
      }
    }
  }

  template <class Sharers>
  static std::vector<CpuSet> Groups(const Node& node, const Sharers& sharers) {
    std::map<int, CpuSet> groups;  // By the lowest CPU, whether that one is allowed or not.
    for (const int cpu : node.cpus) {
      const CpuSet sharing = sharers(cpu);
      groups[sharing.empty() ? cpu : *sharing.begin()].insert(cpu);
    }
    std::vector<CpuSet> found;
    for (auto& [first, cpus] : groups) {
      found.push_back(std::move(cpus));
    }
    return found;
  }

  fs::path cpu_;
  std::vector<Node> nodes_;
  bool known_ = false;
};

// A GPU, whether a worker uses it or not, or a worker: each needs a part of a node.
struct Slot {
  const Node* node = nullptr;  // None: its CPUs are not ours.
  std::size_t place = 0;       // Among the slots of its node.
};

const Node* FindNode(const Topology& topology, int number) {
  const auto& nodes = topology.nodes();
  const auto found = std::find_if(nodes.begin(), nodes.end(),
                                  [&](const Node& node) { return node.number == number; });
  return found == nodes.end() ? nullptr : &*found;
}

// Worker n of W stands in the middle of the n-th of W equal parts of all allowed CPUs.
const Node* ShareOf(const Topology& topology, std::size_t worker, std::size_t workers) {
  std::size_t all = 0;
  for (const Node& node : topology.nodes()) {
    all += node.cpus.size();
  }
  std::size_t passed = 0;
  for (const Node& node : topology.nodes()) {
    passed += node.cpus.size();
    if ((2 * worker + 1) * all < 2 * workers * passed) {
      return &node;
    }
  }
  return &topology.nodes().back();
}

std::vector<Slot> MakeSlots(const NumaRequest& request, const Topology& topology, bool by_gpu) {
  const std::size_t count =
      by_gpu ? std::max<std::size_t>(request.workers, request.gpus.size()) : request.workers;
  std::vector<Slot> slots(count);
  std::map<const Node*, std::size_t> used;
  for (std::size_t i = 0; i < count; ++i) {
    slots[i].node = by_gpu && topology.known()
                        ? FindNode(topology, request.gpus[i % request.gpus.size()].numa_node)
                        : ShareOf(topology, i, count);
    slots[i].place = used[slots[i].node]++;
  }
  return slots;
}

Result<CpuSet> ExclusivePart(const Topology& topology, const Slot& slot, std::size_t sharers) {
  const std::vector<CpuSet> cores = topology.Cores(*slot.node);
  const std::size_t each = cores.size() / sharers;
  if (each == 0) {
    return Error{ErrorKind::kNotFound,
                 "--numa-binding=exclusive: NUMA node " + std::to_string(slot.node->number) +
                     " has " + std::to_string(cores.size()) + " allowed cores (CPUs " +
                     RangesOf(slot.node->cpus, ",") + ") for " + std::to_string(sharers) +
                     " GPUs or workers. Start fewer workers, or use --numa-binding=node"};
  }
  const std::size_t over = cores.size() % sharers;
  const std::size_t begin = slot.place * each + std::min(slot.place, over);
  CpuSet part;
  for (std::size_t i = begin; i < begin + each + (slot.place < over ? 1 : 0); ++i) {
    part.insert(cores[i].begin(), cores[i].end());
  }
  return part;
}

Result<CpuSet> CpusOf(NumaMode mode, const Topology& topology, const Slot& slot,
                      std::size_t sharers) {
  switch (mode) {
    case NumaMode::kNone:
      return CpuSet{};
    case NumaMode::kNode:
      return slot.node->cpus;
    case NumaMode::kSocket:
      return topology.SocketOf(*slot.node);
    case NumaMode::kExclusive:
      return ExclusivePart(topology, slot, sharers);
    case NumaMode::kCoreComplex: {
      const std::vector<CpuSet> caches = topology.Caches(*slot.node);
      return caches[slot.place % caches.size()];
    }
  }
  return CpuSet{};
}

}  // namespace

CpuSet ParseCpuList(const std::string& text) {
  CpuSet cpus;
  for (const std::string& part : Split(text, ',')) {
    const std::size_t dash = part.find('-');
    const auto first = ParseNumber<int>(part.substr(0, dash));
    const auto last = dash == part.npos ? first : ParseNumber<int>(part.substr(dash + 1));
    if (!first || !last || *last - *first > 1'000'000) {
      break;
    }
    for (int cpu = *first; cpu <= *last; ++cpu) {
      cpus.insert(cpu);
    }
  }
  return cpus;
}

Result<NumaPlan> PlanNumaBinding(const NumaRequest& request, const MachineRoots& roots) {
  NumaPlan plan;
  plan.cpus.resize(request.workers);
  if (request.mode == NumaMode::kNone || request.allowed.empty()) {
    return plan;
  }
  const Topology topology(roots, request.allowed);
  const bool placed = std::all_of(request.gpus.begin(), request.gpus.end(),
                                  [](const Gpu& gpu) { return !gpu.pci.empty(); });
  const bool by_gpu = !request.gpus.empty() && placed;
  const std::string nodes = std::to_string(topology.nodes().size()) + " NUMA node" +
                            (topology.nodes().size() == 1 ? "" : "s");
  plan.basis = by_gpu ? "each worker is where its GPU is, " + nodes
                      : "no GPU: workers are spread over " + nodes;
  if (!placed) {
    plan.warnings.push_back(
        "--numa-binding: only the driver knows the place of a MIG device. Workers are spread "
        "over " +
        nodes + " instead");
  }
  if (!topology.known()) {
    plan.warnings.push_back(
        "--numa-binding: the kernel reports no NUMA nodes (" +
        (roots.sys / "devices/system/node").native() +
        "). All allowed CPUs count as one node, so node and socket have no effect");
  }
  const std::vector<Slot> slots = MakeSlots(request, topology, by_gpu);
  for (std::uint32_t local_rank = 0; local_rank < request.workers; ++local_rank) {
    const Slot& slot = slots[local_rank];
    if (slot.node == nullptr) {
      const Gpu& gpu = request.gpus[local_rank % request.gpus.size()];
      plan.warnings.push_back(
          "--numa-binding: GPU " + gpu.pci + " of local rank " + std::to_string(local_rank) +
          " is on NUMA node " + std::to_string(gpu.numa_node) +
          ", but none of its CPUs is allowed here (" + RangesOf(request.allowed, ",") +
          "). This worker keeps all allowed CPUs");
      continue;
    }
    const std::size_t sharers = static_cast<std::size_t>(std::count_if(
        slots.begin(), slots.end(), [&](const Slot& other) { return other.node == slot.node; }));
    ASSIGN_OR_RETURN(plan.cpus[local_rank], CpusOf(request.mode, topology, slot, sharers));
  }
  return plan;
}

}  // namespace ddprun
