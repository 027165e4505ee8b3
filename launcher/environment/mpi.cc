// Processes that mpirun, mpiexec or jsrun started. None of them says where rank 0 is, so that comes
// from MASTER_ADDR, from all being on one machine, or from the batch system's list of hosts.
#include "launcher/environment/reading.h"
#include "proto/hostlist.h"

namespace ddprun {
namespace {

struct Dialect {
  Scheduler scheduler;
  const char* name;
  std::vector<const char*> rank;  // The first that is set counts.
  std::vector<const char*> size;
  std::vector<const char*> local_rank;
  std::vector<const char*> local_size;
  std::vector<const char*> job;
};

const std::vector<Dialect>& Dialects() {
  static const std::vector<Dialect> kAll = {
      {Scheduler::kOpenMpi,
       "Open MPI",
       {"OMPI_COMM_WORLD_RANK"},
       {"OMPI_COMM_WORLD_SIZE"},
       {"OMPI_COMM_WORLD_LOCAL_RANK"},
       {"OMPI_COMM_WORLD_LOCAL_SIZE"},
       {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "OMPI_MCA_orte_ess_jobid"}},
      {Scheduler::kPmi,
       "PMI",
       {"PMI_RANK"},
       {"PMI_SIZE"},
       {"MPI_LOCALRANKID", "PMI_LOCAL_RANK", "PALS_LOCAL_RANKID"},
       {"MPI_LOCALNRANKS", "PMI_LOCAL_SIZE", "PALS_LOCAL_SIZE"},
       {"PMI_JOBID", "PALS_APID", "SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID"}},
      {Scheduler::kPals,
       "PALS",
       {"PALS_RANKID"},
       {"PALS_SIZE"},
       {"PALS_LOCAL_RANKID"},
       {"PALS_LOCAL_SIZE"},
       {"PALS_APID", "PBS_JOBID"}},
      {Scheduler::kLsf,
       "LSF's jsrun",
       {"JSM_NAMESPACE_RANK"},
       {"JSM_NAMESPACE_SIZE"},
       {"JSM_NAMESPACE_LOCAL_RANK"},
       {"JSM_NAMESPACE_LOCAL_SIZE"},
       {"LSB_JOBID"}},
  };
  return kAll;
}

struct Found {
  std::string name;
  std::optional<std::uint32_t> value;
};

Result<Found> First(const ContextQuery& query, const std::vector<const char*>& names) {
  for (const char* name : names) {
    ASSIGN_OR_RETURN(const auto value, Count(query, name));
    if (value) {
      return Found{name, value};
    }
  }
  return Found{names.front(), std::nullopt};
}

struct Meeting {
  std::string host;
  std::uint16_t port = 0;
  bool derived_port = true;
  std::string origin;
};

Result<Meeting> WhereTheyMeet(const ContextQuery& query, const std::string& job, bool one_machine,
                              LaunchContext& context) {
  Meeting meeting{.port = PortOfJob(job)};
  if (const auto master = Text(query, "MASTER_ADDR")) {
    ASSIGN_OR_RETURN(const auto port, Count(query, "MASTER_PORT"));
    if (port && *port <= 65'535) {
      meeting.port = static_cast<std::uint16_t>(*port);
      meeting.derived_port = false;
    }
    meeting.host = *master;
    meeting.origin = port ? "MASTER_ADDR, MASTER_PORT" : "MASTER_ADDR";
    return meeting;
  }
  if (one_machine) {
    meeting.host = "127.0.0.1";
    meeting.origin = "all processes are on this machine";
    return meeting;
  }
  if (const auto list = Text(query, "SLURM_JOB_NODELIST")) {
    ASSIGN_OR_RETURN(context.hosts, ExpandHostlist(*list));
    meeting.origin = "SLURM_JOB_NODELIST";
  } else if (const auto nodes = Text(query, "PBS_NODEFILE")) {
    ASSIGN_OR_RETURN(context.hosts, ReadHosts(query, *nodes));
    meeting.origin = "PBS_NODEFILE";
  } else if (const auto file = Text(query, "LSB_DJOB_HOSTFILE")) {
    ASSIGN_OR_RETURN(context.hosts, ReadHosts(query, *file));
    if (context.hosts.size() > 1) {
      context.hosts.erase(
          context.hosts.begin());  // The node that jsrun was called on runs nothing.
    }
    meeting.origin = "LSB_DJOB_HOSTFILE";
  }
  context.hosts = Unique(context.hosts);
  if (context.hosts.empty()) {
    return Error{
        ErrorKind::kInvalid,
        context.name +
            " does not name the host of rank 0. Set MASTER_ADDR to that host for every process "
            "(mpirun -x MASTER_ADDR=HOST, mpiexec -genv "
            "MASTER_ADDR HOST), or set --rdzv-endpoint=HOST:PORT, --nnodes and --node-rank"};
  }
  meeting.host = context.hosts.front();
  return meeting;
}

Result<LaunchContext> ReadDialect(const ContextQuery& query, const Dialect& dialect) {
  LaunchContext context{.scheduler = dialect.scheduler, .name = dialect.name};
  ASSIGN_OR_RETURN(Found size, First(query, dialect.size));
  ASSIGN_OR_RETURN(const Found rank, First(query, dialect.rank));
  ASSIGN_OR_RETURN(const Found local_rank, First(query, dialect.local_rank));
  ASSIGN_OR_RETURN(const Found local_size, First(query, dialect.local_size));
  if (!size.value || !rank.value || *rank.value >= *size.value || !local_rank.value ||
      !local_size.value || *local_rank.value >= *local_size.value ||
      *local_size.value > *size.value) {
    return Error{ErrorKind::kInvalid,
                 context.name + " started this process, but " + rank.name + ", " + size.name +
                     ", " + local_rank.name + " and " + local_size.name +
                     " do not give its rank and their number. Start one ddprun per node and set "
                     "--nnodes, --node-rank and --rdzv-endpoint"};
  }
  const bool one_machine = *local_size.value == *size.value;
  std::string job = one_machine ? "process-" + std::to_string(query.parent) : "job";
  for (const char* name : dialect.job) {
    if (const auto text = Text(query, name)) {
      job = *text;
      break;
    }
  }
  ASSIGN_OR_RETURN(const Meeting meeting, WhereTheyMeet(query, job, one_machine, context));
  if (*local_size.value > 1) {
    const std::string workers = ValueOf(query.said, "nproc-per-node").value_or("1");
    if (workers != "1" || ValueOf(query.said, "nnodes")) {
      return Error{ErrorKind::kInvalid,
                   context.name + " started " + std::to_string(*local_size.value) +
                       " ddprun processes on this machine, so each becomes one worker. " +
                       (workers != "1" ? "--nproc-per-node=" + workers : "--nnodes") +
                       " contradicts that. For one ddprun per node that starts its workers "
                       "itself use mpirun --map-by ppr:1:node (mpiexec -ppn 1). Otherwise leave "
                       "the flag out"};
    }
    context.task_slot = TaskSlot{*local_rank.value, *local_size.value};
    context.settings.push_back({"nproc-per-node", "1", "one process of " + context.name});
  } else {
    context.settings.push_back(WorkersByGpus(query));
  }
  context.on_first_node = one_machine;
  context.derived_port = meeting.derived_port;
  SetPlace(query,
           {.count = *size.value,
            .index = *rank.value,
            .host = meeting.host,
            .port = meeting.port,
            .run_id = "mpi-" + job.substr(0, 100),
            .count_origin = size.name,
            .index_origin = rank.name,
            .host_origin = meeting.origin,
            .run_origin = "the job's name"},
           context);
  context.line = context.name + ": " + (context.task_slot ? "worker " : "node ") +
                 std::to_string(*rank.value) + " of " + std::to_string(*size.value);
  return context;
}

}  // namespace

Result<std::optional<LaunchContext>> ReadMpi(const ContextQuery& query) {
  for (const Dialect& dialect : Dialects()) {
    // PALS alone may leave its size out; of the others one variable is no word of a launcher's.
    const bool sized = Text(query, dialect.size.front()) || dialect.scheduler == Scheduler::kPals;
    if (Text(query, dialect.rank.front()) && sized) {
      ASSIGN_OR_RETURN(LaunchContext context, ReadDialect(query, dialect));
      return std::optional(std::move(context));
    }
  }
  return std::optional<LaunchContext>();
}

}  // namespace ddprun
