#include "launcher/verbs/verb_slurm_script.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "launcher/command_line/problems.h"
#include "launcher/command_line/quoted.h"
#include "launcher/verbs/example_files.h"
#include "launcher/verbs/filled_example.h"
#include "launcher/verbs/verb_line.h"

namespace ddprun {
namespace {

constexpr std::uint32_t kCpusPerGpu = 4;
constexpr std::uint32_t kLeft = 30;  // Seconds from the workers' last to the job's.

struct ScriptOptions {
  // The job's name; a line break in it is refused.
  std::string name = "train";
  // Nodes that train: more than the partition has, and sbatch refuses the job.
  std::uint32_t nodes = 1;
  // A lost node is replaced in place; else Slurm starts the job again, which loses a queue's
  // waiting time at each lost node.
  bool elastic = false;
  // With elastic: nodes that wait for a loss; 0: a loss shrinks the run.
  std::optional<std::uint32_t> spares;
  // With elastic: the fewest nodes that continue; more than `nodes` are refused.
  std::optional<std::uint32_t> least;
  // A chain of so many jobs of one node; too few end it before the training does.
  std::optional<std::uint32_t> jobs;
  // GPUs per node; 0: no line asks for any.
  std::uint32_t gpus = 0;
  // CPUs per node; 0: no line asks for any, and the site's default counts.
  std::optional<std::uint32_t> cpus;
  // Workers per node; 0: as ddprun finds (one per GPU).
  std::uint32_t workers = 0;
  // The job's time limit, as --time of sbatch: too short ends the training before its end.
  std::string time = "24:00:00";
  // Seconds before the end at which workers save: too few, and the job ends before they have.
  std::uint32_t warning = 180;
  // More of sbatch's own flags, as "--partition=gpu": a wrong one makes sbatch refuse the job.
  std::vector<std::string> sbatch;
  // Is sbatch's own, as all rows of kOfSbatch: a set one is answered with --sbatch.
  bool exclusive = false;
  // The program with its arguments; empty: refused.
  std::vector<std::string> program;
};

constexpr const char* kOfSbatch[] = {
    "-p,--partition", "-A,--account",    "--qos",       "-C,--constraint", "--mem",
    "--mem-per-cpu",  "--mem-per-gpu",   "--gres",      "--reservation",   "-w,--nodelist",
    "-x,--exclude",   "-d,--dependency", "--mail-type", "--mail-user"};

constexpr const char* kElasticNodes =
    "for --nnodes=MIN:MAX of the launch set --nodes=MAX --elastic --least=MIN";

// A line of its own for each word, so none may end its line.
bool IsOneLine(const std::string& text) {
  return std::none_of(text.begin(), text.end(), [](char c) { return c >= 0 && c < ' '; });
}

// One word of sbatch's own: a line of its own in the script.
Result<void> CheckWord(const std::string& flag, const std::string& text) {
  return text.find(' ') == std::string::npos && IsOneLine(text)
             ? Result<void>()
             : Invalid(flag + " must be one word", text);
}

void AddFlags(FlagRows& flags, ScriptOptions& options) {
  flags.Count("--nodes,--nnodes", options.nodes, 1, "N", "Nodes that train (default 1)");
  flags.Count("--gpus", options.gpus, 0, "N", "GPUs per node, each with a worker (default: none)");
  flags.Count("--cpus", options.cpus, 1, "N", "CPUs per node (default: 4 for each GPU)");
  flags.Count("--nproc-per-node", options.workers, 0, "N",
              "Workers per node (default: one per GPU, else 1)");
  flags.Value("--time", options.time, "TIME",
              "The job's time limit, as sbatch takes it (default 24:00:00)");
  flags.Seconds("--warning", options.warning,
                "How long before the time limit the workers are asked to save (default 3m)");
  flags.Switch(
      "--elastic", options.elastic,
      "With spare nodes: a lost node is replaced within the job (default: Slurm starts the "
      "whole job again)");
  flags.Count("--spares", options.spares, 0, "N",
              "With --elastic: how many nodes wait (default 1)");
  flags.Count("--least", options.least, 1, "N",
              "With --elastic: the fewest nodes that continue (default: one less than --nodes)");
  flags.Count("--array", options.jobs, 1, "N",
              "A chain of this many jobs of one node, each of which resumes the one before");
  flags.Value("--name", options.name, "NAME", "The job's name (default train)");
  flags.Read("--sbatch", "", "FLAG",
             "One more flag of sbatch, as --sbatch=--partition=gpu; repeatable",
             [&options](const std::string& text) -> Result<void> {
               if (!text.starts_with("-") || !IsOneLine(text)) {
                 return Invalid("--sbatch takes a flag, as --sbatch=--partition=gpu", text);
               }
               options.sbatch.push_back(text);
               return {};
             });
}

Error OfSbatch(const std::string& flag) {
  return {ErrorKind::kInvalid, flag + " is a flag of sbatch: set --sbatch=" + flag};
}

// Flags of sbatch, which are answered with --sbatch.
void AddForeignFlags(FlagRows& flags, ScriptOptions& options) {
  for (const std::string flag : kOfSbatch) {
    const std::string name = flag.substr(flag.find("--"));
    flags
        .Read(
            flag.c_str(), "", "VALUE", "",
            [name](const std::string& text) -> Result<void> { return OfSbatch(name + "=" + text); })
        ->group("");
  }
  flags.Switch("--exclusive", options.exclusive, "")->group("");
}

void CheckForm(const VerbLine& line, ScriptOptions& options, Problems& problems) {
  const bool array = !ValueOf(line.settings, "array").value_or("").empty();
  if (ValueOf(line.settings, "nodes").value_or("").find(':') != std::string::npos) {
    problems.Add(kElasticNodes);
  }
  if (options.elastic && array) {
    problems.Add("--elastic and --array exclude each other");
  }
  if (!options.elastic && (options.spares.value_or(0) > 0 || options.least)) {
    problems.Add("--spares and --least need --elastic");
  }
  if (options.elastic) {
    options.spares = options.spares.value_or(1);
    options.least = options.least.value_or(std::max(1u, options.nodes - 1));
    if (*options.least > options.nodes) {
      problems.Add("--least=" + std::to_string(*options.least) +
                   " is more than --nodes=" + std::to_string(options.nodes));
    }
  } else if (array && options.nodes != 1) {
    problems.Add("--array makes a chain of jobs of one node, so it excludes --nodes=" +
                 std::to_string(options.nodes));
  }
}

bool IsTrainer(const ScriptOptions& options) {
  const std::string& file = options.program.front();
  return file.substr(file.rfind('/') + 1) == "ddprun-train";
}

// The trainer's checkpoints outlive a requeue, whose job id stays, and not another job of this
// name.
std::string ProgramLine(const ScriptOptions& options) {
  const bool placed = std::ranges::any_of(options.program, [](const std::string& word) {
    return word.starts_with("--checkpoint-dir");
  });
  return QuotedLine(options.program) + (IsTrainer(options) && !placed
                                            ? std::string(" --checkpoint-dir=\"ckpt-$SLURM_") +
                                                  (options.jobs ? "ARRAY_" : "") + "JOB_ID\""
                                            : "");
}

std::string Spares(const ScriptOptions& options) {
  const std::string train = std::to_string(options.nodes);
  const std::uint32_t spares = options.spares.value_or(0);
  return spares > 0 ? train + " of " + std::to_string(options.nodes + spares) +
                          " nodes train and the others wait. When one is lost, the others continue "
                          "within\n# seconds, with a spare in its place."
                    : train +
                          " nodes train, and no spare waits. When one is lost, the others continue "
                          "within seconds,\n# as long as " +
                          std::to_string(options.least.value_or(0)) + " are left.";
}

// Lines of their own, before "set -u".
std::string MoreOfSbatch(const ScriptOptions& options) {
  std::string more;
  for (const std::string& flag : options.sbatch) {
    more += "#SBATCH " + flag + "\n";
  }
  return more;
}

std::string Script(const ScriptOptions& options) {
  const auto text = [](const std::string& before, std::uint32_t number,
                       const std::string& after = "") {
    return before + std::to_string(number) + after;
  };
  const std::uint32_t save =
      options.warning > 2 * kLeft ? options.warning - kLeft : std::max(1u, options.warning / 2);
  const std::uint32_t cpus = options.cpus.value_or(options.gpus * kCpusPerGpu);
  const std::string workers =
      options.workers > 0 ? text(" --nproc-per-node=", options.workers) : "";
  const std::string nodes = text("--nodes=", options.nodes + options.spares.value_or(0), " ");
  const std::string timeout = text("--shutdown-timeout=", save) + workers;
  const std::string catches = IsTrainer(options)
                                  ? ""
                                  : "# For the job to be queued again, the program must catch "
                                    "USR1, save and end with 75.\n";
  return FilledExample(
      options.elastic ? kElasticSbatch
      : options.jobs  ? kArraySbatch
                      : kWholeJobSbatch,
      {{"4 of 5 nodes train and the others wait. When one is lost, the others continue within\n"
        "# seconds, with a spare in its place.",
        Spares(options)},
       {"--job-name=train-array", "--job-name=" + options.name},
       {"--job-name=train-elastic", "--job-name=" + options.name},
       {"--job-name=train", "--job-name=" + options.name},
       {"--array=0-9%", text("--array=0-", options.jobs.value_or(1) - 1, "%")},
       {"--nodes=4 ", nodes},
       {"--nodes=5 ", nodes},
       {" --cpus-per-task=32", cpus > 0 ? text(" --cpus-per-task=", cpus) : ""},
       {"#SBATCH --gpus-per-node=8\n",
        options.gpus > 0 ? text("#SBATCH --gpus-per-node=", options.gpus, "\n") : ""},
       {"--time=24:00:00", "--time=" + options.time},
       {"--time=04:00:00", "--time=" + options.time},
       {"USR1@180", text("USR1@", options.warning)},
       {"USR1@120", text("USR1@", options.warning)},
       {"set -u\n", MoreOfSbatch(options) + "set -u\n"},
       {"srun --cpus", catches + "srun --cpus"},
       {"--nnodes=3:4", text("--nnodes=", options.least.value_or(0), text(":", options.nodes))},
       {"--shutdown-timeout=150", timeout},
       {"--shutdown-timeout=90", timeout},
       {R"(ddprun-train --model=mlp --checkpoint-dir="ckpt-$SLURM_JOB_ID")", ProgramLine(options)},
       {R"(ddprun-train --model=mlp --checkpoint-dir="ckpt-$SLURM_ARRAY_JOB_ID")",
        ProgramLine(options)}});
}

}  // namespace

std::string ParseSlurmScript(VerbLine& line) {
  ScriptOptions options;
  AddFlags(line.flags, options);
  AddForeignFlags(line.flags, options);
  if (!line.ParseUpToProgram()) {
    return "";
  }
  if (options.exclusive) {
    line.problems.Add(OfSbatch("--exclusive"));
  }
  CheckForm(line, options, line.problems);
  line.problems.Check(CheckWord("--time", options.time));
  line.problems.Check(CheckWord("--name", options.name));
  options.program = line.rest;
  if (options.program.empty() || options.program.front().empty()) {
    line.problems.Add("no program given. Usage: ddprun slurm-script [options] PROGRAM [arguments]");
    return "";
  }
  return Script(options);
}

}  // namespace ddprun
