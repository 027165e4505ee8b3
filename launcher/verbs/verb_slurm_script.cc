#include "launcher/verbs/verb_slurm_script.h"

#include <algorithm>
#include <optional>

#include "launcher/command_line/problems.h"
#include "launcher/slurm/slurm_script.h"
#include "launcher/verbs/verb_line.h"

namespace ddprun {
namespace {

constexpr std::uint32_t kCpusPerGpu = 4;

struct RawWish {
  SlurmScriptWish wish{.name = "train", .time = "24:00:00", .warning = 180};
  std::optional<std::uint32_t> cpus, spares, least, jobs;
  bool elastic = false;
  bool exclusive = false;  // sbatch's own, as all rows of kOfSbatch.
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

void AddFlags(FlagRows& flags, RawWish& raw) {
  SlurmScriptWish& wish = raw.wish;
  flags.Count("--nodes", wish.nodes, 1, "N", "Nodes that train (default 1)");
  flags.Count("--gpus", wish.gpus, 0, "N", "GPUs per node, each with a worker (default: none)");
  flags.Count("--cpus", raw.cpus, 1, "N", "CPUs per node (default: 4 for each GPU)");
  flags.Count("--nproc-per-node", wish.workers, 0, "N",
              "Workers per node (default: one per GPU, else 1)");
  flags.Value("--time", wish.time, "TIME",
              "The job's time limit, as sbatch takes it (default 24:00:00)");
  flags.Count("--warning", wish.warning, 1, "SECONDS",
              "How long before the time limit the workers are asked to save (default 180)");
  flags.Switch(
      "--elastic", raw.elastic,
      "With spare nodes: a lost node is replaced within the job (default: Slurm starts the "
      "whole job again)");
  flags.Count("--spares", raw.spares, 0, "N", "With --elastic: how many nodes wait (default 1)");
  flags.Count("--least", raw.least, 1, "N",
              "With --elastic: the fewest nodes that continue (default: one less than --nodes)");
  flags.Count("--array", raw.jobs, 1, "N",
              "A chain of this many jobs of one node, each of which resumes the one before");
  flags.Value("--name", wish.name, "NAME", "The job's name (default train)");
  flags.Read("--sbatch", "", "FLAG",
             "One more flag of sbatch, as --sbatch=--partition=gpu; repeatable",
             [&wish](const std::string& text) -> Result<void> {
               if (!text.starts_with("-") || !IsOneLine(text)) {
                 return Invalid("--sbatch takes a flag, as --sbatch=--partition=gpu", text);
               }
               wish.sbatch.push_back(text);
               return {};
             });
}

Error OfSbatch(const std::string& flag) {
  return {ErrorKind::kInvalid, flag + " is a flag of sbatch: set --sbatch=" + flag};
}

// Flags of sbatch and of the launch, which are answered with those that are meant.
void AddForeignFlags(FlagRows& flags, RawWish& raw) {
  const auto add = [&flags](const char* flag, const ReadText& read) {
    flags.Read(flag, "", "VALUE", "", read)->group("");
  };
  for (const std::string flag : kOfSbatch) {
    const std::string name = flag.substr(flag.find("--"));
    add(flag.c_str(),
        [name](const std::string& text) -> Result<void> { return OfSbatch(name + "=" + text); });
  }
  flags.Switch("--exclusive", raw.exclusive, "")->group("");
  add("--nnodes", [](const std::string& text) -> Result<void> {
    return Error{ErrorKind::kInvalid, text.find(':') == text.npos
                                          ? "unknown option --nnodes; did you mean --nodes?"
                                          : kElasticNodes};
  });
}

void ReadForm(const VerbLine& line, RawWish& raw, Problems& problems) {
  SlurmScriptWish& wish = raw.wish;
  const bool array = !ValueOf(line.settings, "array").value_or("").empty();
  if (ValueOf(line.settings, "nodes").value_or("").find(':') != std::string::npos) {
    problems.Add(kElasticNodes);
  }
  if (raw.elastic && array) {
    problems.Add("--elastic and --array exclude each other");
  }
  if (!raw.elastic && (raw.spares.value_or(0) > 0 || raw.least)) {
    problems.Add("--spares and --least need --elastic");
  }
  if (raw.elastic) {
    wish.form = SlurmForm::kElastic;
    wish.spares = raw.spares.value_or(1);
    wish.least = raw.least.value_or(std::max(1u, wish.nodes - 1));
    if (wish.least > wish.nodes) {
      problems.Add("--least=" + std::to_string(wish.least) +
                   " is more than --nodes=" + std::to_string(wish.nodes));
    }
  } else if (array) {
    wish.form = SlurmForm::kArray;
    wish.jobs = raw.jobs.value_or(1);
    if (wish.nodes != 1) {
      problems.Add("--array is a chain of jobs of one node: --nodes=" + std::to_string(wish.nodes) +
                   " contradicts it");
    }
  }
}

}  // namespace

std::string ParseSlurmScript(VerbLine& line) {
  RawWish raw;
  AddFlags(line.flags, raw);
  AddForeignFlags(line.flags, raw);
  if (!line.ParseUpToProgram()) {
    return "";
  }
  if (raw.exclusive) {
    line.problems.Add(OfSbatch("--exclusive"));
  }
  SlurmScriptWish& wish = raw.wish;
  ReadForm(line, raw, line.problems);
  line.problems.Check(CheckWord("--time", wish.time));
  line.problems.Check(CheckWord("--name", wish.name));
  wish.cpus = raw.cpus.value_or(wish.gpus * kCpusPerGpu);
  wish.program = line.rest;
  if (wish.program.empty() || wish.program.front().empty()) {
    line.problems.Add("no program given. Usage: ddprun slurm-script [options] PROGRAM [arguments]");
    return "";
  }
  return SlurmScript(wish);
}

}  // namespace ddprun
