// A process's knowledge of how it was started, and the questions by which it finds that out
// (detect.h).
//
// Values; the command line decides what they mean for a launch.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/endpoint.h"
#include "common/result.h"
#include "launcher/setting.h"
#include "proto/worker_env.h"

namespace ddprun {

enum class Scheduler {
  kNone,
  kCommandLine,
  kHosts,
  kWorker,
  kSlurm,
  kSlurmBatch,
  kOpenMpi,
  kPmi,
  kPals,
  kLsf,
  kPyTorchJob,
  kKubernetes,
  kSageMaker,
};

// One of several processes that the scheduler started on one machine, for one worker each. Each is
// an agent of its own; its worker's place on the machine is the scheduler's.
struct TaskSlot {
  std::uint32_t local_rank = 0;
  std::uint32_t local_size = 1;
};

struct LaunchContext {
  Scheduler scheduler = Scheduler::kNone;
  std::string name;  // "Slurm step 12.0"; "nothing that is known"
  std::string line;  // For people: the context, and its meaning for this node.
  std::vector<Setting> settings;
  std::vector<std::string> warnings;

  std::string node;                    // This node's name there; empty: the host's own.
  std::optional<std::uint32_t> index;  // Of this node, or process, among all; 0 hosts the server.
  std::vector<std::string> hosts;      // Of all nodes in their order, where they are known.
  bool on_first_node = false;          // The one that they meet at.
  bool joins = false;         // The server at the endpoint is there, and this node never serves.
  bool followed = false;      // A launch elsewhere prints what the workers print.
  std::string word;           // Marks the run's end for a launch elsewhere; empty: not.
  bool derived_port = false;  // The port was made of the job's id: the user did not choose it.
  std::optional<TaskSlot> task_slot;
  std::optional<std::uint32_t> cpus;  // That were given to this process; none: not said.

  std::string job;                      // For the scheduler's own commands; empty: none.
  bool speaks_for_job = false;          // The one process of all that asks the scheduler something.
  std::optional<Endpoint> waiter;       // Where the process that waits for this step listens: srun.
  std::uint32_t requeues = 0;           // How often it was started again as a whole.
  std::optional<std::int64_t> ends_at;  // When it is killed: seconds since 1970.
  bool tells_before_end = false;        // TERM, USR1 and USR2 mean: save, you will be stopped.
  bool ends_nodes_alone = false;  // The signal goes to one node, and need not concern the others.
  std::string shared;  // A directory for this run alone that its nodes share; empty: none is known.
  std::vector<std::string> launcher;  // Forgotten: the words to put before ddprun.

  bool IsPlaced() const { return index.has_value(); }
};

struct ContextQuery {
  GetEnv get_env;
  std::vector<Setting> said;  // By the command line, the environment and the settings file.
  bool only_facts = false;    // The user places: only facts that no flag has are read.
  std::uint32_t gpus = 0;     // Visible on this machine.
  std::int64_t parent = 0;    // Process that started this one: its children's common name.
  std::string directory;      // The working directory, absolute; empty: unknown.
  std::function<Result<std::string>(const std::string& path)> read_file;
};

}  // namespace ddprun
