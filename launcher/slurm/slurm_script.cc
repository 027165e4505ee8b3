#include "launcher/slurm/slurm_script.h"

#include <algorithm>
#include <utility>

#include "common/text.h"
#include "launcher/command_line/quoted.h"

namespace ddprun {
namespace {

constexpr std::uint32_t kLeft = 30;  // Seconds from the workers' last to the job's.

constexpr const char* kWholeJob = R"(#!/bin/bash
# Whatever happens to a node, Slurm starts the whole job again on nodes that work, and the training
# goes on from its last checkpoint. The first choice: it survives the loss of any node.
#SBATCH --job-name=%name%
# One ddprun per node, which starts the workers.
#SBATCH --nodes=%nodes% --ntasks-per-node=1%cpus%
%gpus%#SBATCH --time=%time%
# The workers are asked to save this many seconds before the time limit. No "B:" here: it would signal
# this script alone, not the step.
#SBATCH --signal=USR1@%warning%
# May be started again; what it says then goes on in the same file.
#SBATCH --requeue --open-mode=append --output=%x-%j.out
%more%set -u
# A word that only this job knows, and ps does not show: nobody else can join.
DDPRUN_TOKEN=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
export DDPRUN_TOKEN

# srun does not take --cpus-per-task from sbatch, and newer ones fail on unequal nodes where they find what sbatch made
# of it; one task of a node that fails ends no other one, since ddprun itself sees to that. Workers have
# --shutdown-timeout to save.
unset SLURM_TRES_PER_TASK
%catch%srun --cpus-per-task="${SLURM_CPUS_PER_TASK:-1}" --kill-on-bad-exit=0 --wait=0 \
  ddprun --shutdown-timeout=%timeout%%workers% \
  %program% "$@"
code=$?
# 75: stopped on request, and every worker has saved.
[ $code = 75 ] && exec scontrol requeue "$SLURM_JOB_ID"
exit $code
)";

constexpr const char* kElastic = R"(#!/bin/bash
# %spares%
# No queueing, no new allocation.
#SBATCH --job-name=%name%
# One ddprun per node, which starts the workers.
#SBATCH --nodes=%nodes% --ntasks-per-node=1%cpus%
%gpus%#SBATCH --time=%time%
# The workers are asked to save this many seconds before the time limit. No "B:" here: it would signal
# this script alone, not the step.
#SBATCH --signal=USR1@%warning%
# A lost node does not end the job.
#SBATCH --no-kill
# May be started again; what it says then goes on in the same file.
#SBATCH --requeue --open-mode=append --output=%x-%j.out
%more%set -u

# --no-kill: when a node is lost, ddprun and not Slurm reports it to the others. --nnodes=MIN:MAX: the
# fewest nodes that may train, and how many do. --run-dir is shared by the nodes; each run has its own. If
# the host of the rendezvous dies, another node takes over by it. Newer sruns fail on unequal nodes if
# they inherit sbatch's SLURM_TRES_PER_TASK.
unset SLURM_TRES_PER_TASK
%catch%srun --cpus-per-task="${SLURM_CPUS_PER_TASK:-1}" --no-kill --kill-on-bad-exit=0 --wait=0 \
  ddprun --nnodes=%least%:%train% --max-restarts=3 --shutdown-timeout=%timeout%%workers% \
  --run-dir="run-$SLURM_JOB_ID-${SLURM_RESTART_COUNT:-0}" \
  %program% "$@"
code=$?
# 75: stopped on request, and every worker has saved.
[ $code = 75 ] && exec scontrol requeue "$SLURM_JOB_ID"
exit $code
)";

constexpr const char* kArray = R"(#!/bin/bash
# One long training as a chain of short jobs of one node, one after the other (%1): each resumes
# where the last one stopped. Short jobs start sooner.
#SBATCH --job-name=%name%
#SBATCH --array=0-%last%%1
# One ddprun, which starts the workers.
#SBATCH --nodes=1 --ntasks-per-node=1%cpus%
%gpus%#SBATCH --time=%time%
# The workers are asked to save this many seconds before the time limit. No "B:" here: it would signal
# this script alone, not the step.
#SBATCH --signal=USR1@%warning%
# All jobs of the chain write one file.
#SBATCH --output=%x-%A.out --open-mode=append
%more%set -u

# srun does not take --cpus-per-task from sbatch, and newer ones fail where they find what sbatch made of it. Workers have
# --shutdown-timeout to save.
unset SLURM_TRES_PER_TASK
%catch%srun --cpus-per-task="${SLURM_CPUS_PER_TASK:-1}" \
  ddprun --shutdown-timeout=%timeout%%workers% \
  %program% "$@"
code=$?
# 75: stopped on request, and every worker has saved: the next job of the chain goes on.
[ $code = 75 ] && exit 0
# Done, or failed: the rest of the chain has nothing to do.
scancel "$SLURM_ARRAY_JOB_ID" --state=PENDING
exit $code
)";

std::string Text(std::uint32_t number) {
  return std::to_string(number);
}

bool IsTrainer(const SlurmScriptWish& wish) {
  const std::string& file = wish.program.front();
  return file.substr(file.rfind('/') + 1) == "ddprun-train";
}

// The trainer's checkpoints outlive a requeue, whose job id stays, and not another job of this
// name.
std::string ProgramLine(const SlurmScriptWish& wish) {
  const bool placed = std::ranges::any_of(
      wish.program, [](const std::string& word) { return word.starts_with("--checkpoint-dir"); });
  const bool array = wish.form == SlurmForm::kArray;
  return QuotedLine(wish.program) + (IsTrainer(wish) && !placed
                                         ? std::string(" --checkpoint-dir=\"ckpt-$SLURM_") +
                                               (array ? "ARRAY_" : "") + "JOB_ID\""
                                         : "");
}

}  // namespace

std::string SlurmScript(const SlurmScriptWish& wish) {
  const std::uint32_t timeout =
      wish.warning > 2 * kLeft ? wish.warning - kLeft : std::max(1u, wish.warning / 2);
  std::string more;
  for (const std::string& flag : wish.sbatch) {
    more += "#SBATCH " + flag + "\n";
  }
  const std::pair<std::string, std::string> values[] = {
      {"%name%", wish.name},
      {"%spares%", wish.spares > 0
                       ? "%train% of %nodes% nodes train and the others wait. When one is lost, "
                         "the others continue within\n# seconds, with a spare in its place."
                       : "%train% nodes train, and none waits. When one is lost, the others "
                         "continue within seconds,\n# as long as %least% are left."},
      {"%nodes%", Text(wish.nodes + wish.spares)},
      {"%train%", Text(wish.nodes)},
      {"%least%", Text(wish.least)},
      {"%last%", Text(std::max(1u, wish.jobs) - 1)},
      {"%cpus%", wish.cpus > 0 ? " --cpus-per-task=" + Text(wish.cpus) : ""},
      {"%gpus%", wish.gpus > 0 ? "#SBATCH --gpus-per-node=" + Text(wish.gpus) + "\n" : ""},
      {"%time%", wish.time},
      {"%warning%", Text(wish.warning)},
      {"%timeout%", Text(timeout)},
      {"%workers%", wish.workers > 0 ? " --nproc-per-node=" + Text(wish.workers) : ""},
      {"%more%", more},
      {"%catch%", IsTrainer(wish)
                      ? ""
                      : "# For the job to be queued again, the program must catch USR1, "
                        "save and end with 75.\n"},
      {"%program%", ProgramLine(wish)}};
  std::string script = wish.form == SlurmForm::kElastic ? kElastic
                       : wish.form == SlurmForm::kArray ? kArray
                                                        : kWholeJob;
  for (const auto& [mark, value] : values) {
    ReplaceAll(script, mark, value);
  }
  return script;
}

}  // namespace ddprun
