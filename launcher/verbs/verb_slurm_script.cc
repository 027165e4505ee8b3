#include "launcher/verbs/verb_slurm_script.h"

#include <algorithm>

#include "launcher/command_line/problems.h"
#include "launcher/slurm/slurm_script.h"
#include "launcher/verbs/verb_line.h"

namespace ddprun {
namespace {

constexpr std::uint32_t kCpusPerGpu = 4;

struct RawWish {
  std::string nodes, gpus = "0", cpus, workers = "0", time = "24:00:00", warning = "180";
  std::string spares, least, array, name;
  std::string sbatch;
  bool elastic = false;
};

void AddFlags(CLI::App& app, RawWish& raw) {
  app.add_option("--nodes", raw.nodes, "Nodes that train (default 1)")->type_name("N");
  app.add_option("--gpus", raw.gpus, "GPUs per node, each with a worker (default: none)")
      ->type_name("N");
  app.add_option("--cpus", raw.cpus, "CPUs per node (default: 4 for each GPU)")->type_name("N");
  app.add_option("--nproc-per-node", raw.workers, "Workers per node (default: one per GPU, else 1)")
      ->type_name("N");
  app.add_option("--time", raw.time, "The job's time limit, as sbatch takes it (default 24:00:00)")
      ->type_name("TIME");
  app.add_option("--warning", raw.warning,
                 "How long before the time limit the workers are asked to save (default 180)")
      ->type_name("SECONDS");
  app.add_flag(
      "--elastic", raw.elastic,
      "With spare nodes: a lost node is replaced within the job (default: Slurm starts the "
      "whole job again)");
  app.add_option("--spares", raw.spares, "With --elastic: how many nodes wait (default 1)")
      ->type_name("N");
  app.add_option("--least", raw.least,
                 "With --elastic: the fewest nodes that continue (default: one less than --nodes)")
      ->type_name("N");
  app.add_option("--array", raw.array,
                 "A chain of this many jobs of one node, each of which resumes the one before")
      ->type_name("N");
  app.add_option("--name", raw.name, "The job's name (default train)")->type_name("NAME");
  app.add_option("--sbatch", raw.sbatch,
                 "One more flag of sbatch, as --sbatch=--partition=gpu; repeatable")
      ->type_name("FLAG");
}

void ReadForm(const RawWish& raw, SlurmScriptWish& wish, Problems& problems) {
  if (raw.elastic && !raw.array.empty()) {
    problems.Add("--elastic and --array exclude each other");
  }
  if (!raw.elastic && !(raw.spares + raw.least).empty()) {
    problems.Add("--spares and --least need --elastic");
  }
  TakeNumber("--nodes", raw.nodes, 1, wish.nodes, problems);
  if (raw.elastic) {
    wish.form = SlurmForm::kElastic;
    wish.spares = 1;
    wish.least = std::max(1u, wish.nodes - 1);
    TakeNumber("--spares", raw.spares, 0, wish.spares, problems);
    TakeNumber("--least", raw.least, 1, wish.least, problems);
    if (wish.least > wish.nodes) {
      problems.Add("--least=" + raw.least + " is more than --nodes=" + std::to_string(wish.nodes));
    }
  } else if (!raw.array.empty()) {
    wish.form = SlurmForm::kArray;
    TakeNumber("--array", raw.array, 1, wish.jobs, problems);
    if (wish.nodes != 1) {
      problems.Add("--array is a chain of jobs of one node: --nodes=" + raw.nodes +
                   " contradicts it");
    }
  }
}

// A line of its own for each word, so none may end its line.
bool IsOneLine(const std::string& text) {
  return std::none_of(text.begin(), text.end(), [](char c) { return c >= 0 && c < ' '; });
}

}  // namespace

Result<std::string> ParseSlurmScript(const std::vector<std::string>& args) {
  VerbLine line(
      "Prints a batch script for Slurm that trains PROGRAM, ready for sbatch: ddprun "
      "slurm-script --nodes=4 --gpus=8 PROGRAM [arguments] > job.sbatch",
      "slurm-script", " PROGRAM [ARGUMENTS]");
  RawWish raw;
  AddFlags(line.app, raw);
  ASSIGN_OR_RETURN(const std::vector<Setting> given, line.ParseUpToProgram(args));
  if (line.help) {
    return line.Help();
  }
  SlurmScriptWish wish;
  Problems problems;
  ReadForm(raw, wish, problems);
  TakeNumber("--gpus", raw.gpus, 0, wish.gpus, problems);
  wish.cpus = wish.gpus * kCpusPerGpu;
  TakeNumber("--cpus", raw.cpus, 1, wish.cpus, problems);
  TakeNumber("--nproc-per-node", raw.workers, 0, wish.workers, problems);
  wish.warning = 180;
  TakeNumber("--warning", raw.warning, 1, wish.warning, problems);
  wish.time = raw.time;
  wish.name = raw.name.empty() ? "train" : raw.name;
  for (const Setting& setting : given) {
    if (setting.name == "sbatch") {
      wish.sbatch.push_back(setting.value);
    }
  }
  wish.program = line.rest;
  for (const std::string& flag : wish.sbatch) {
    if (!flag.starts_with("-") || !IsOneLine(flag)) {
      problems.Add("--sbatch takes a flag, as --sbatch=--partition=gpu: '" + flag + "'");
    }
  }
  for (const auto& [name, text] :
       {std::pair("--time", wish.time), std::pair("--name", wish.name)}) {
    if (text.find(' ') != std::string::npos || !IsOneLine(text)) {
      problems.Add(std::string(name) + " must be one word: '" + text + "'");
    }
  }
  if (wish.program.empty() || wish.program.front().empty()) {
    problems.Add("no program given. Usage: ddprun slurm-script [options] PROGRAM [arguments]");
  }
  if (!problems.text.empty()) {
    return Error{ErrorKind::kInvalid, problems.text};
  }
  return SlurmScript(wish);
}

}  // namespace ddprun
