// Prepares the workers of one generation: their programs and environments, and on this node's disks
// the attempt directory and a notify socket for each worker.
//
// Starts nothing. Waits for disks: a maker's thread calls it (generation_maker.h).
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/agent_options.h"
#include "agent/watch/notify_socket.h"
#include "agent/workers/generation_maker.h"
#include "rendezvous/messages/messages.h"

namespace ddprun {

// Values of its own: the start that uses it may hang, and outlive everything else.
struct GenerationPlan {
  std::shared_ptr<const AgentOptions> options;
  std::map<std::string, std::string> environment;  // The agent's.
  Placement placement;
  std::filesystem::path attempt;           // To be made.
  std::filesystem::path notify_directory;  // To be made, another one for each generation.
  std::string life_locks;                  // LifeLockWatch::Offer's.
  NotifyFiles sockets;                     // The sockets that were made.
  // By local rank: the memory that the last workers left, until the new ones are started.
  std::vector<std::vector<MemoryBlock>> memory;
};

// <attempt>/<local rank>/<name>, as torchrun has it; where nothing of it stays, no worker has a
// directory, which many would wait for: <attempt>/<local rank>.<name>.
std::filesystem::path WorkersFile(const std::filesystem::path& attempt, std::uint32_t local_rank,
                                  const std::string& name, bool stays);

inline constexpr const char* kErrorFile = "error.json";

// The plan of these workers' preload process, if the options want one.
std::optional<WarmPlan> PlanWarmStart(const AgentOptions& options,
                                      const std::map<std::string, std::string>& environment);

Result<std::vector<WorkerSpec>> MakeWorkers(GenerationPlan& plan, const BeginStep& begin);

}  // namespace ddprun
