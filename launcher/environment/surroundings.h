// Who started this process, and what follows from that for a launch: how many nodes, which one this
// is, where they meet, what the run is called.
//
// The one place that knows schedulers. Reads nothing but the variables and files it is given, looks
// no name up, starts nothing. What it derives are settings of ddprun's own flags, which the command
// line, the environment's DDPRUN_* and PET_* and the settings file override one by one; and facts
// that no flag has.
//
// The first that matches counts:
//
//   the command line, PET_*    they say where the nodes meet, or that there is one: nothing derived
//   inside a worker            of ddprun or torchrun: nothing is derived
//   Slurm step                 SLURM_STEP_ID (not beneath mpirun, whose daemon is Slurm's task)
//   Open MPI                   OMPI_COMM_WORLD_SIZE
//   MPICH, Intel MPI, PMI      PMI_SIZE
//   PALS                       PALS_RANKID; hosts from PBS_NODEFILE
//   LSF                        JSM_NAMESPACE_SIZE; hosts from LSB_DJOB_HOSTFILE
//   PyTorchJob                 RANK and WORLD_SIZE of nodes, without LOCAL_RANK
//   Kubernetes indexed job     JOB_COMPLETION_INDEX
//   SageMaker                  SM_HOSTS, or its resourceconfig.json
//   Slurm job without a step   one node: as it is; several: srun was forgotten
//   nothing
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
struct Seat {
  std::uint32_t local_rank = 0;
  std::uint32_t local_size = 1;
};

struct Surroundings {
  Scheduler scheduler = Scheduler::kNone;
  std::string name;  // "Slurm step 12.0"; "nothing that is known"
  std::string line;  // For people: what was found, and what it means for this node.
  std::vector<Setting> settings;
  std::vector<std::string> warnings;

  std::string node;                    // This node's name there; empty: the host's own.
  std::optional<std::uint32_t> index;  // Of this node, or process, among all; 0 carries the server.
  std::vector<std::string> hosts;      // Of all nodes in their order, where they are known.
  bool on_first_node = false;          // The one that they meet at.
  std::uint16_t ports = 1;             // The server takes the first free one from its port on.
  std::optional<Seat> seat;
  std::optional<std::uint32_t> cpus;  // That were given to this process; none: not said.

  std::string job;                      // For the scheduler's own commands; empty: none.
  bool speaks_for_job = false;          // The one process of all that asks the scheduler something.
  std::optional<Endpoint> waiter;       // Where who waits for this step listens: srun.
  std::uint32_t requeues = 0;           // How often it was started again as a whole.
  std::optional<std::int64_t> ends_at;  // When it is killed: seconds since 1970.
  bool tells_before_end = false;        // TERM, USR1 and USR2 mean: save, you will be stopped.
  bool ends_nodes_alone = false;        // That is told one node, and need not concern the others.
  std::vector<std::string> launcher;    // Forgotten: the words to put before ddprun.

  bool IsPlaced() const { return index.has_value(); }
};

// Whatever it was started by there; a step, mpirun, or by hand in salloc's shell.
bool IsInSlurmJob(const GetEnv& get_env);

struct SurroundingsQuery {
  GetEnv get_env;
  std::vector<Setting> said;  // By the command line, the environment and the settings file.
  bool only_facts = false;    // The user places: what no flag has is asked for alone.
  std::uint32_t gpus = 0;     // Visible on this machine.
  std::int64_t parent = 0;    // Process that started this one: its children's common name.
  std::function<Result<std::string>(const std::string& path)> read_file;
};

// kInvalid: what was found cannot be used, and what to do.
Result<Surroundings> DetectSurroundings(const SurroundingsQuery& query);

}  // namespace ddprun
