// Which CPUs each worker of this node may run on (--numa-binding), from what the kernel tells of
// NUMA nodes, sockets, cores and caches, and always within the CPUs that ddprun itself was given.
//
// Workers go where their GPU is: local rank n has GPU n. Where there is no GPU they are spread over
// the NUMA nodes in blocks, in proportion to the allowed CPUs of each. CPU affinity only: memory
// follows by the kernel's first-touch rule. Changes nothing itself.
//
//   node          all CPUs of the worker's NUMA node
//   socket        all CPUs of all NUMA nodes on that socket
//   exclusive     the node's cores (with all their threads) split over its GPUs, or its workers
//                 where there are more of them; the first ones get what is left over
//   core-complex  one last-level cache each, largest first, round again when there are too few
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "agent/workers/gpu_list.h"
#include "common/result.h"

namespace ddprun {

enum class NumaMode { kNone, kNode, kSocket, kExclusive, kCoreComplex };

using CpuSet = std::set<int>;

// "0-2,4": as the kernel writes it. Text that is not a number ends the list.
CpuSet ParseCpuList(const std::string& text);

struct NumaRequest {
  NumaMode mode = NumaMode::kNone;
  std::uint32_t workers = 1;
  std::vector<Gpu> gpus;  // Those that the workers see, in the order of their local ranks.
  CpuSet allowed;
};

struct NumaPlan {
  std::vector<CpuSet> cpus;  // By local rank; an empty one: as ddprun itself.
  std::string basis;  // The reason of the choice, in words: "local rank n is where GPU n is".
  std::vector<std::string> warnings;
};

// An error: exclusive cores were asked for and there are too few.
Result<NumaPlan> PlanNumaBinding(const NumaRequest& request, const MachineRoots& roots);

}  // namespace ddprun
