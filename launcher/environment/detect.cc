#include "launcher/environment/detect.h"

#include "launcher/environment/reading.h"

namespace ddprun {
namespace {

// What on the command line already says where the nodes meet, or that there is but one.
std::string PlacedBy(const SurroundingsQuery& query) {
  for (const Setting& setting : query.said) {
    const bool names = setting.name == "rdzv-endpoint" || setting.name == "master-addr" ||
                       setting.name == "master-port" || setting.name == "node-rank";
    const bool alone = setting.name == "standalone" && setting.value == "true";
    const bool one = setting.name == "nnodes" && (setting.value == "1" || setting.value == "1:1");
    if ((names && !setting.value.empty()) || alone || one) {
      return "--" + setting.name + (alone ? "" : "=" + setting.value) + " (" + setting.origin + ")";
    }
  }
  return "";
}

using Reader = Result<std::optional<Surroundings>> (*)(const SurroundingsQuery&);

Result<Surroundings> FirstThatMatches(const SurroundingsQuery& query) {
  constexpr Reader kReaders[] = {ReadSlurm,      ReadMpi,       ReadPyTorchJob,
                                 ReadKubernetes, ReadSageMaker, ReadSlurmBatch};
  for (const Reader read : kReaders) {
    ASSIGN_OR_RETURN(std::optional<Surroundings> around, read(query));
    if (around) {
      return *std::move(around);
    }
  }
  Surroundings nothing{.name = "nothing that is known"};
  nothing.line = "no scheduler is known here: one node, unless flags say more";
  return nothing;
}

// What holds whoever says where the nodes meet: facts of the job.
Surroundings FactsOf(const Surroundings& found) {
  Surroundings facts;
  facts.job = found.job;
  facts.speaks_for_job = found.speaks_for_job;
  facts.waiter = found.waiter;
  facts.requeues = found.requeues;
  facts.ends_at = found.ends_at;
  facts.tells_before_end = found.tells_before_end;
  facts.ends_nodes_alone = found.ends_nodes_alone;
  facts.cpus = found.seat ? std::nullopt : found.cpus;
  if (found.seat && found.seat->local_rank == 0) {
    facts.warnings.push_back(
        found.name + " started " + std::to_string(found.seat->local_size) +
        " ddprun on this node; each is a node of its own here (one per node: srun "
        "--ntasks-per-node=1)");
  }
  return facts;
}

}  // namespace

bool IsInSlurmJob(const GetEnv& get_env) {
  return !get_env("SLURM_JOB_ID").value_or("").empty();
}

Result<Surroundings> DetectSurroundings(const SurroundingsQuery& query) {
  if (Text(query, "TORCHELASTIC_RUN_ID")) {
    Surroundings worker{.scheduler = Scheduler::kWorker, .name = "a worker of another launcher"};
    worker.line = "inside a worker of run " + *Text(query, "TORCHELASTIC_RUN_ID") +
                  ": nothing is derived from its scheduler";
    return worker;
  }
  const std::string placed = PlacedBy(query);
  if (placed.empty()) {
    return FirstThatMatches(query);
  }
  SurroundingsQuery bare = query;
  bare.said.clear();  // What the flags contradict is not asked for here.
  bare.only_facts = true;
  const Result<Surroundings> found = FirstThatMatches(bare);
  Surroundings around = found ? FactsOf(*found) : Surroundings();
  const std::string nodes = Said(query, "nnodes").value_or("1");
  if (around.ends_nodes_alone && nodes != "1" && nodes.find(':') == std::string::npos) {
    around.tells_before_end = false;  // The others of a fixed number wait for who comes again.
  }
  around.scheduler = Scheduler::kCommandLine;
  around.name = "the command line";
  around.line = "the command line counts: " + placed +
                (found && found->scheduler != Scheduler::kNone ? ", not " + found->name : "");
  return around;
}

}  // namespace ddprun
