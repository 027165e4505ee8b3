#include "launcher/environment/detect.h"

#include <algorithm>

#include "common/endpoint.h"
#include "launcher/environment/launch_place.h"
#include "launcher/environment/reading.h"

namespace ddprun {
namespace {

// The flag that already says where the nodes meet, or that there is only one.
std::string PlacedBy(const ContextQuery& query) {
  for (const Setting& setting : query.said) {
    const bool names = setting.name == "rdzv-endpoint" || setting.name == "master-addr" ||
                       setting.name == "master-port" || setting.name == "node-rank" ||
                       setting.name == "hosts" || setting.name == "hostfile";
    const bool alone = setting.name == "standalone" && setting.value == "true";
    const bool one = setting.name == "nnodes" && (setting.value == "1" || setting.value == "1:1");
    if ((names && !setting.value.empty()) || alone || one) {
      return "--" + setting.name + (alone ? "" : "=" + setting.value) + " (" + setting.origin + ")";
    }
  }
  return "";
}

using Reader = Result<std::optional<LaunchContext>> (*)(const ContextQuery&);

Result<LaunchContext> FirstThatMatches(const ContextQuery& query) {
  constexpr Reader kReaders[] = {ReadSlurm,      ReadMpi,       ReadPyTorchJob,
                                 ReadKubernetes, ReadSageMaker, ReadSlurmBatch};
  for (const Reader read : kReaders) {
    ASSIGN_OR_RETURN(std::optional<LaunchContext> context, read(query));
    if (context) {
      return *std::move(context);
    }
  }
  LaunchContext nothing{.name = "nothing that is known"};
  nothing.line = "no known scheduler here: one node, unless flags set more";
  return nothing;
}

// The facts of the job, which hold wherever the nodes meet.
LaunchContext FactsOf(const LaunchContext& found) {
  LaunchContext facts;
  facts.job = found.job;
  facts.speaks_for_job = found.speaks_for_job;
  facts.waiter = found.waiter;
  facts.requeues = found.requeues;
  facts.ends_at = found.ends_at;
  facts.tells_before_end = found.tells_before_end;
  facts.ends_nodes_alone = found.ends_nodes_alone;
  facts.cpus = found.task_slot ? std::nullopt : found.cpus;
  if (found.task_slot && found.task_slot->local_rank == 0) {
    facts.warnings.push_back(found.name + " started " +
                             std::to_string(found.task_slot->local_size) +
                             " ddprun processes on this node. Each becomes a node of its own. For "
                             "one per node: srun --ntasks-per-node=1");
  }
  return facts;
}

// How many nodes the scheduler started, of which the command line makes a run each, although it
// says where they meet; 1: it does not.
std::string NodesThatTrainAlone(const ContextQuery& query, const LaunchContext& found) {
  const auto names = [&query](const char* flag) {
    return !ValueOf(query.said, flag).value_or("").empty();
  };
  // Each node has a loopback of its own, as torchrun's --rdzv-endpoint=localhost:0 of one node.
  const auto here = [&query](const char* flag) {
    const Result<Endpoint> endpoint = ParseEndpoint(ValueOf(query.said, flag).value_or(""), 0);
    return endpoint && IsLoopback(endpoint->host);
  };
  const bool meet = (names("rdzv-endpoint") || names("master-addr") || names("node-rank")) &&
                    !here("rdzv-endpoint") && !here("master-addr");
  const bool one_node =
      ValueOf(query.said, "standalone") == "true" || names("hosts") || names("hostfile");
  return meet && !one_node && !names("nnodes") && !found.task_slot
             ? ValueOf(found.settings, "nnodes").value_or("1")
             : "1";
}

}  // namespace

bool IsInSlurmJob(const GetEnv& get_env) {
  return !get_env("SLURM_JOB_ID").value_or("").empty();
}

Result<LaunchContext> ReadContext(const ContextQuery& query) {
  if (Text(query, "TORCHELASTIC_RUN_ID")) {
    LaunchContext worker{.scheduler = Scheduler::kWorker, .name = "a worker of another launcher"};
    worker.line = "inside a worker of run " + *Text(query, "TORCHELASTIC_RUN_ID") +
                  ": the scheduler's variables are not used";
    return worker;
  }
  ASSIGN_OR_RETURN(std::optional<LaunchContext> launched, ReadLaunchPlace(query));
  if (launched) {
    return *std::move(launched);
  }
  const std::string placed = PlacedBy(query);
  if (placed.empty()) {
    return FirstThatMatches(query);
  }
  ContextQuery bare = query;
  bare.said.clear();  // Values that the flags contradict are not asked for here.
  bare.only_facts = true;
  const Result<LaunchContext> found = FirstThatMatches(bare);
  LaunchContext context = found ? FactsOf(*found) : LaunchContext();
  const std::string nodes = ValueOf(query.said, "nnodes").value_or("1");
  if (context.ends_nodes_alone && nodes != "1" && nodes.find(':') == std::string::npos) {
    context.tells_before_end = false;  // The others of a fixed number wait for its return.
  }
  const std::string count = found ? NodesThatTrainAlone(query, *found) : "1";
  if (count != "1" && found->index == 0U) {  // One of them says so.
    context.warnings.push_back("no --nnodes beside " + placed + ": each of the " + count +
                               " nodes of " + found->name + " trains alone. Set --nnodes=" + count);
  }
  context.scheduler = Scheduler::kCommandLine;
  context.name = "the command line";
  context.line = "the command line decides: " + placed +
                 (found && found->scheduler != Scheduler::kNone ? ", not " + found->name : "");
  return context;
}

}  // namespace ddprun
