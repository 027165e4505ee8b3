#include "proto/task_env.h"

#include "common/text.h"
#include "proto/hostlist.h"
#include "proto/job_port.h"

namespace ddprun {
namespace {

using U32 = std::uint32_t;

std::optional<std::string> Text(const GetEnv& get, const char* name) {
  std::optional<std::string> text = get(name);
  return text && text->empty() ? std::nullopt : text;
}

// The first of the variables that is a number.
std::optional<U32> First(const GetEnv& get, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (const auto value = ParseNumber<U32>(get(name).value_or(""))) {
      return value;
    }
  }
  return std::nullopt;
}

struct Task {
  const char* launcher = "";
  std::optional<U32> rank, size, local_rank, local_size;
  U32 node = 0;
  U32 nodes = 1;
  std::string job;
  std::string first_host;  // Empty: not known.
};

Result<Task> ReadStep(const GetEnv& get) {
  Task task{.launcher = "srun"};
  task.rank = First(get, {"SLURM_PROCID"});
  task.size = First(get, {"SLURM_STEP_NUM_TASKS"});
  task.local_rank = First(get, {"SLURM_LOCALID"});
  task.node = First(get, {"SLURM_NODEID"}).value_or(0);
  task.nodes = First(get, {"SLURM_STEP_NUM_NODES"}).value_or(1);
  ASSIGN_OR_RETURN(const auto counts, ExpandCounts(get("SLURM_STEP_TASKS_PER_NODE").value_or("")));
  if (task.node < counts.size()) {
    task.local_size = counts[task.node];
  }
  ASSIGN_OR_RETURN(const auto hosts, ExpandHostlist(get("SLURM_STEP_NODELIST").value_or("")));
  task.first_host = hosts.empty() ? "" : hosts.front();
  task.job = get("SLURM_JOB_ID").value_or("") + "." + get("SLURM_STEP_ID").value_or("") + "." +
             get("SLURM_RESTART_COUNT").value_or("0");
  return task;
}

Task ReadMpi(const GetEnv& get) {
  Task task{.launcher = "mpirun"};
  task.rank = First(get, {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PALS_RANKID"});
  task.size = First(get, {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PALS_SIZE"});
  task.local_rank = First(get, {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "PMI_LOCAL_RANK",
                                "PALS_LOCAL_RANKID"});
  task.local_size = First(
      get, {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "PMI_LOCAL_SIZE", "PALS_LOCAL_SIZE"});
  for (const char* name : {"PMIX_NAMESPACE", "PMI_JOBID", "PALS_APID", "PBS_JOBID"}) {
    if (task.job.empty()) {
      task.job = get(name).value_or("");
    }
  }
  if (task.size && task.local_size == task.size) {
    task.first_host = "127.0.0.1";
  } else if (task.rank && task.local_rank && task.local_size.value_or(0) > 0) {
    task.node = *task.rank / *task.local_size;  // Exact where all nodes have as many.
    task.nodes = (task.size.value_or(1) + *task.local_size - 1) / *task.local_size;
  }
  return task;
}

}  // namespace

Result<std::optional<WorkerEnv>> FromTask(const GetEnv& get) {
  constexpr U32 kMaxTasks = 1'000'000;
  const bool by_mpi = (Text(get, "OMPI_COMM_WORLD_RANK") && Text(get, "OMPI_COMM_WORLD_SIZE")) ||
                      (Text(get, "PMI_RANK") && Text(get, "PMI_SIZE") &&
                       Text(get, "PMI_SIZE") != Text(get, "SLURM_STEP_NUM_TASKS"));
  const bool by_srun = Text(get, "SLURM_STEP_ID") && Text(get, "SLURM_STEP_NUM_TASKS");
  Task task;
  if (by_mpi || (!by_srun && Text(get, "PALS_RANKID"))) {
    task = ReadMpi(get);
  } else if (by_srun) {
    ASSIGN_OR_RETURN(task, ReadStep(get));
  }
  if (*task.launcher == '\0' || task.size == 1u) {
    return std::optional<WorkerEnv>();
  }
  task.first_host = Text(get, "MASTER_ADDR").value_or(task.first_host);
  if (!task.rank || !task.size || !task.local_rank || !task.local_size ||
      *task.rank >= *task.size || *task.size > kMaxTasks || *task.local_rank >= *task.local_size ||
      task.first_host.empty()) {
    return Error{ErrorKind::kInvalid,
                 std::string(task.launcher) +
                     " started this process as one of several, but its variables do not say " +
                     (task.first_host.empty() ? "where rank 0 is: set MASTER_ADDR to its host"
                                              : "which one: start it by ddprun instead")};
  }
  WorkerEnv env;
  env.rank = env.role_rank = *task.rank;
  env.world_size = env.role_world_size = *task.size;
  env.local_rank = *task.local_rank;
  env.local_world_size = *task.local_size;
  env.group_rank = task.node;
  env.group_world_size = task.nodes;
  env.run_id = std::string(task.launcher) + "-" + task.job;
  env.generation = {1};
  const U32 port = First(get, {"MASTER_PORT"}).value_or(PortOfJob(task.job));
  if (port == 0 || port > 65'535) {
    return Invalid("the environment variable MASTER_PORT must be a port", std::to_string(port));
  }
  env.master = {task.first_host, static_cast<std::uint16_t>(port)};
  env.hosts_store = env.rank == 0;
  return std::optional(std::move(env));
}

}  // namespace ddprun
