// Slurm's steps and jobs. The meaning of each variable was looked at with Slurm 22.05: in a step
// SLURM_NODEID and SLURM_PROCID are the step's own, also where it has but some of the job's nodes;
// a batch script has SLURM_PROCID=0 and no SLURM_STEP_ID; SLURM_LAUNCH_NODE_IPADDR is srun's host,
// not the first node's; a job keeps its id when it is requeued; of a heterogeneous step the step's
// own variables span all parts.
#include <algorithm>

#include "common/text.h"
#include "launcher/environment/reading.h"
#include "launcher/environment/shared_directory.h"
#include "proto/hostlist.h"

namespace ddprun {
namespace {

// Steps that Slurm makes unasked have ids from here on: interactive, batch script, extern.
constexpr std::uint64_t kFirstSpecialStep = 4'294'967'290;

std::optional<std::uint64_t> StepOf(const ContextQuery& query) {
  const auto step = ParseNumber<std::uint64_t>(Text(query, "SLURM_STEP_ID").value_or(""));
  return step && *step < kFirstSpecialStep ? step : std::nullopt;
}

// mpirun inside of a Slurm job starts its daemons as a step, and they start us.
bool IsBeneathMpi(const ContextQuery& query) {
  const auto tasks = Text(query, "SLURM_STEP_NUM_TASKS");
  const auto pmi = Text(query, "PMI_SIZE");
  return Text(query, "OMPI_COMM_WORLD_SIZE") || (pmi && pmi != tasks);
}

Result<std::vector<std::string>> HostsOf(const ContextQuery& query,
                                         const std::vector<const char*>& names) {
  for (const char* name : names) {
    if (const auto list = Text(query, name)) {
      Result<std::vector<std::string>> hosts = ExpandHostlist(*list);
      if (!hosts) {
        return Error{ErrorKind::kInvalid, std::string(name) + ": " + hosts.error().message};
      }
      return hosts;
    }
  }
  return std::vector<std::string>();
}

// Reads the job's facts, in a step or not.
Result<void> ReadJob(const ContextQuery& query, LaunchContext& context) {
  context.job = Text(query, "SLURM_JOB_ID").value_or("");
  context.node = Text(query, "SLURMD_NODENAME").value_or("");
  ASSIGN_OR_RETURN(const auto requeues, Count(query, "SLURM_RESTART_COUNT"));
  context.requeues = requeues.value_or(0);
  // A larger one would overflow in milliseconds.
  const auto end = ParseNumber<std::uint32_t>(Text(query, "SLURM_JOB_END_TIME").value_or(""));
  context.ends_at = end.value_or(0) > 0 ? std::optional<std::int64_t>(*end) : std::nullopt;
  context.tells_before_end = true;
  return {};
}

// The part of the run's name that tells it from all others, requeued ones included.
std::string RunIdOf(const LaunchContext& context, const std::string& step) {
  return context.job + "." + step + "." + std::to_string(context.requeues);
}

std::string JobInWords(const ContextQuery& query, const LaunchContext& context) {
  std::string text;
  const auto array = Text(query, "SLURM_ARRAY_JOB_ID");
  const auto task = Text(query, "SLURM_ARRAY_TASK_ID");
  if (array && task) {
    text += ", task " + *task + " of array " + *array;
  }
  if (context.requeues > 0) {
    text += ", requeued " + std::to_string(context.requeues) + " time" +
            (context.requeues == 1 ? "" : "s");
  }
  return text;
}

struct SlurmStep {
  std::uint32_t nodes = 1;
  std::uint32_t tasks = 1;
  std::uint32_t node = 0;
  std::uint32_t task = 0;
  std::uint32_t local_task = 0;
  std::uint32_t local_tasks = 1;
};

Result<SlurmStep> ReadStep(const ContextQuery& query, std::size_t hosts) {
  SlurmStep step;
  ASSIGN_OR_RETURN(step.nodes, CountOf(query, "SLURM_STEP_NUM_NODES", "SLURM_STEP_ID"));
  ASSIGN_OR_RETURN(step.tasks, CountOf(query, "SLURM_STEP_NUM_TASKS", "SLURM_STEP_ID"));
  ASSIGN_OR_RETURN(step.node, CountOf(query, "SLURM_NODEID", "SLURM_STEP_ID"));
  ASSIGN_OR_RETURN(step.task, CountOf(query, "SLURM_PROCID", "SLURM_STEP_ID"));
  ASSIGN_OR_RETURN(step.local_task, CountOf(query, "SLURM_LOCALID", "SLURM_STEP_ID"));
  if (hosts != step.nodes || step.node >= step.nodes || step.task >= step.tasks) {
    return Error{ErrorKind::kInvalid,
                 "Slurm's variables contradict each other: SLURM_STEP_NODELIST names " +
                     std::to_string(hosts) + " nodes, but this is node " +
                     std::to_string(step.node) + " of " + std::to_string(step.nodes) + ", task " +
                     std::to_string(step.task) + " of " + std::to_string(step.tasks) +
                     ". Set --nnodes, --node-rank and --rdzv-endpoint instead"};
  }
  const auto counts = ExpandCounts(Text(query, "SLURM_STEP_TASKS_PER_NODE").value_or(""));
  const bool told = counts && step.node < counts->size();
  step.local_tasks = told ? (*counts)[step.node] : 1;
  if (step.local_task >= step.local_tasks) {
    return Invalid("SLURM_LOCALID is not below this node's count in SLURM_STEP_TASKS_PER_NODE",
                   std::to_string(step.local_task));
  }
  return step;
}

// Several tasks on a node: each is one worker.
Result<void> TakeTaskSlot(const ContextQuery& query, const SlurmStep& step,
                          LaunchContext& context) {
  const std::string workers = ValueOf(query.said, "nproc-per-node").value_or("1");
  if (workers != "1" || ValueOf(query.said, "nnodes")) {
    return Error{
        ErrorKind::kInvalid,
        "Slurm started " + std::to_string(step.tasks) + " ddprun on " + std::to_string(step.nodes) +
            " nodes, so each becomes one worker. " +
            (workers != "1" ? "--nproc-per-node=" + workers : "--nnodes") +
            " contradicts that. For one ddprun per node that starts its workers itself use "
            "srun --ntasks-per-node=1 (and -c for its CPUs). Otherwise leave the flag out "
            "[tasks-per-node]"};
  }
  context.task_slot = TaskSlot{step.local_task, step.local_tasks};
  context.settings.push_back({"nproc-per-node", "1", "one task of srun is one worker"});
  ASSIGN_OR_RETURN(context.cpus, Count(query, "SLURM_CPUS_PER_TASK"));
  return {};
}

// "4(x2)" -> 4; none where nodes differ.
std::optional<std::uint32_t> EqualCount(const std::string& text) {
  const auto counts = ExpandCounts(text);
  const bool equal = counts && !counts->empty() &&
                     std::all_of(counts->begin(), counts->end(),
                                 [&](std::uint32_t count) { return count == counts->front(); });
  return equal ? std::optional(counts->front()) : std::nullopt;
}

// The step that one ddprun per node needs. sbatch's own --ntasks and --cpus-per-task would reach
// srun as variables: both are said.
std::vector<std::string> SrunWords(const ContextQuery& query, std::uint32_t nodes) {
  const std::string count = std::to_string(nodes);
  std::vector<std::string> words = {
      "srun",       "--kill-on-bad-exit=0", "--wait=0",           "--no-kill",
      "-N" + count, "-n" + count,           "--ntasks-per-node=1"};
  const auto cpus = EqualCount(Text(query, "SLURM_JOB_CPUS_PER_NODE").value_or(""));
  if (cpus) {
    words.push_back("-c" + std::to_string(*cpus));
  }
  return words;
}

}  // namespace

Result<std::optional<LaunchContext>> ReadSlurm(const ContextQuery& query) {
  const std::optional<std::uint64_t> id = StepOf(query);
  if (!id || !Text(query, "SLURM_JOB_ID") || IsBeneathMpi(query)) {
    return std::optional<LaunchContext>();
  }
  LaunchContext context{.scheduler = Scheduler::kSlurm};
  RETURN_IF_ERROR(ReadJob(query, context));
  ASSIGN_OR_RETURN(context.hosts,
                   HostsOf(query, {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"}));
  ASSIGN_OR_RETURN(const SlurmStep step, ReadStep(query, context.hosts.size()));
  const std::string number = std::to_string(*id);
  const bool one_per_worker = step.tasks > step.nodes;
  Place place;
  place.count = one_per_worker ? step.tasks : step.nodes;
  place.index = one_per_worker ? step.task : step.node;
  place.host = context.hosts.front();
  place.port = PortOfJob(context.job + "." + number);
  place.run_id = RunIdOf(context, number);
  place.count_origin = one_per_worker ? "SLURM_STEP_NUM_TASKS" : "SLURM_STEP_NUM_NODES";
  place.index_origin = one_per_worker ? "SLURM_PROCID" : "SLURM_NODEID";
  place.host_origin = "SLURM_STEP_NODELIST, port from job and step";
  place.run_origin = "SLURM_JOB_ID, SLURM_STEP_ID, SLURM_RESTART_COUNT";
  if (one_per_worker) {
    RETURN_IF_ERROR(TakeTaskSlot(query, step, context));
    context.node += "." + std::to_string(step.local_task);
  } else {
    ASSIGN_OR_RETURN(context.cpus, Count(query, "SLURM_CPUS_ON_NODE"));
    context.settings.push_back(WorkersByGpus(query));
  }
  ASSIGN_OR_RETURN(const auto port, Count(query, "SLURM_SRUN_COMM_PORT"));
  if (const auto host = Text(query, "SLURM_SRUN_COMM_HOST"); host && port && *port <= 65'535) {
    context.waiter = Endpoint{*host, static_cast<std::uint16_t>(*port)};
  }
  SetPlace(query, place, context);
  context.settings.push_back({"log-dir", "ddprun_logs", "a Slurm step's working directory"});
  const Result<std::string> mounts = query.read_file("/proc/self/mountinfo");
  if (mounts && IsShared(query.directory, *mounts)) {
    context.shared = query.directory + "/.ddprun/" + place.run_id;
  }
  context.on_first_node = step.node == 0;
  context.speaks_for_job = step.task == 0;
  context.derived_port = true;
  context.name = "Slurm step " + context.job + "." + number;
  context.line = context.name + JobInWords(query, context) + ": " +
                 (one_per_worker ? "worker " : "node ") + std::to_string(place.index) + " of " +
                 std::to_string(place.count) + (context.node.empty() ? "" : ", " + context.node);
  return std::optional(std::move(context));
}

Result<std::optional<LaunchContext>> ReadSlurmBatch(const ContextQuery& query) {
  if (!Text(query, "SLURM_JOB_ID") || StepOf(query) || IsBeneathMpi(query)) {
    return std::optional<LaunchContext>();
  }
  LaunchContext context{.scheduler = Scheduler::kSlurmBatch};
  RETURN_IF_ERROR(ReadJob(query, context));
  ASSIGN_OR_RETURN(context.hosts, HostsOf(query, {"SLURM_JOB_NODELIST", "SLURM_NODELIST"}));
  ASSIGN_OR_RETURN(auto nodes, Count(query, "SLURM_JOB_NUM_NODES"));
  if (!nodes) {
    ASSIGN_OR_RETURN(nodes, Count(query, "SLURM_NNODES"));
  }
  if (!nodes && context.hosts.empty()) {
    return std::optional<LaunchContext>();  // A number alone was left behind by another job.
  }
  context.name = "Slurm job " + context.job + " without a step";
  context.speaks_for_job = true;
  // The shell of salloc is not even on the job's node, and has no SLURMD_NODENAME.
  if (nodes.value_or(1) > 1 || context.node.empty()) {
    context.launcher = SrunWords(query, nodes.value_or(1));
    context.line = context.name + JobInWords(query, context) + ": srun was forgotten";
    return std::optional(std::move(context));
  }
  ASSIGN_OR_RETURN(context.cpus, Count(query, "SLURM_CPUS_ON_NODE"));
  context.settings.push_back(WorkersByGpus(query));
  SetPlace(query,
           {.count = 1,
            .run_id = RunIdOf(context, "batch"),
            .count_origin = "SLURM_JOB_NUM_NODES",
            .run_origin = "SLURM_JOB_ID, SLURM_RESTART_COUNT"},
           context);
  context.settings.push_back({"log-dir", "ddprun_logs", "a Slurm job's working directory"});
  context.line = context.name + JobInWords(query, context) + ": the one node " + context.node;
  return std::optional(std::move(context));
}

}  // namespace ddprun
