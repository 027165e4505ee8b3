#include "launcher/verbs/verb_k8s_manifest.h"

#include <algorithm>
#include <initializer_list>
#include <string_view>

#include "launcher/command_line/problems.h"
#include "launcher/kubernetes/manifest.h"
#include "launcher/verbs/verb_line.h"

namespace ddprun {
namespace {

constexpr std::size_t kLongestObject = 253;  // Of names that are no host's.

struct RawManifest {
  std::string nodes = "1", gpus = "0", workers = "0", grace = "150";
  std::string cpus, memory, image = "train:latest", claim = "ckpt", name = "train";
  std::string runtime = "torch-distributed";
  bool job_set = false, train_job = false;
};

void AddManifestFlags(CLI::App& app, RawManifest& raw) {
  app.add_option(
      "--nodes", raw.nodes,
      "Nodes, a pod each: N, or MIN:MAX for a run that goes on without the lost ones and "
      "grows (default 1)");
  app.add_option("--gpus", raw.gpus, "GPUs per node, each with a worker (default: none)");
  app.add_option("--cpus", raw.cpus, "CPUs per node, as Kubernetes takes it (default: no limit)");
  app.add_option("--memory", raw.memory,
                 "Memory per node, as Kubernetes takes it: 64Gi (default: no limit)");
  app.add_option("--nproc-per-node", raw.workers,
                 "Workers per node (default: one per GPU, else 1)");
  app.add_option("--image", raw.image,
                 "The container's image, which has ddprun and PROGRAM (default train:latest)");
  app.add_option("--claim", raw.claim,
                 "The PersistentVolumeClaim that all nodes share (default ckpt)");
  app.add_option("--grace", raw.grace,
                 "Seconds from TERM to KILL of a pod; workers have 30 less to save (default 150)");
  app.add_option("--name", raw.name, "The job's name (default train)");
  app.add_flag("--jobset", raw.job_set, "A JobSet (default: an Indexed Job and a Service)");
  app.add_flag("--trainjob", raw.train_job, "A TrainJob of Kubeflow's Trainer");
  app.add_option("--runtime", raw.runtime,
                 "With --trainjob: its ClusterTrainingRuntime (default torch-distributed)");
}

bool IsLower(char c) {
  return c >= 'a' && c <= 'z';
}

bool IsDigit(char c) {
  return c >= '0' && c <= '9';
}

// a-z, 0-9 and inner hyphens, as everything that Kubernetes names.
bool IsLabel(std::string_view text) {
  return !text.empty() && text.front() != '-' && text.back() != '-' &&
         std::ranges::all_of(text, [](char c) { return IsLower(c) || IsDigit(c) || c == '-'; });
}

// Labels with dots between them.
bool IsName(const std::string& text) {
  std::string_view left = text;
  for (std::size_t dot = 0; (dot = left.find('.')) != left.npos; left.remove_prefix(dot + 1)) {
    if (!IsLabel(left.substr(0, dot))) {
      return false;
    }
  }
  return text.size() <= kLongestObject && IsLabel(left);
}

// "1.5Gi": a number above 0, with one of these words behind it.
bool IsQuantity(const std::string& text, std::initializer_list<std::string_view> units) {
  const auto is_part = [](char c) { return IsDigit(c) || c == '.'; };
  const auto end = std::ranges::find_if_not(text, is_part);
  const std::string_view number(text.begin(), end);
  return std::ranges::any_of(number, IsDigit) && std::ranges::count(number, '.') <= 1 &&
         number.find_first_of("123456789") != number.npos &&
         std::ranges::find(units, std::string_view(end, text.end())) != units.end();
}

void ReadQuantities(const RawManifest& raw, ManifestWish& wish, Problems& problems) {
  wish.cpus = raw.cpus;
  wish.memory = raw.memory;
  if (!raw.cpus.empty() && !IsQuantity(raw.cpus, {"", "m"})) {
    problems.Add("--cpus must be a number above 0, or so many thousandths: 4, 0.5, 500m: '" +
                 raw.cpus + "'");
  }
  if (!raw.memory.empty() && !IsQuantity(raw.memory, {"", "k", "M", "G", "T", "P", "E", "Ki", "Mi",
                                                      "Gi", "Ti", "Pi", "Ei"})) {
    problems.Add("--memory must be a number of bytes above 0, or of a unit of Kubernetes: 64Gi: '" +
                 raw.memory + "'");
  }
}

void ReadNodes(const std::string& text, ManifestWish& wish, Problems& problems) {
  const std::size_t colon = text.find(':');
  const auto least = NotNegative(text.substr(0, colon));
  const auto most = colon == text.npos ? least : NotNegative(text.substr(colon + 1));
  if (!least || !most || *least < 1 || *most < *least || *most > kMostOfAJob) {
    problems.Add("--nodes must be N or MIN:MAX, from 1 to " + std::to_string(kMostOfAJob) + ": '" +
                 text + "'");
    return;
  }
  wish.least = *least;
  wish.most = *most;
}

void ReadNames(const RawManifest& raw, ManifestWish& wish, Problems& problems) {
  wish.name = raw.name;
  wish.claim = raw.claim;
  wish.runtime = raw.runtime;
  wish.image = raw.image;
  const std::size_t longest = LongestName(wish);
  if (!IsLabel(wish.name) || !IsLower(wish.name.front()) || wish.name.size() > longest) {
    problems.Add("--name must be a-z, 0-9 and inner hyphens from a letter on, " +
                 std::to_string(longest) + " at most, since pods' host names begin with it: '" +
                 wish.name + "'");
  }
  for (const auto& [flag, text] :
       {std::pair("--claim", wish.claim), std::pair("--runtime", wish.runtime)}) {
    if (!IsName(text)) {
      problems.Add(std::string(flag) +
                   " must be a name of Kubernetes, a-z, 0-9 and inner hyphens, with single dots "
                   "between: '" +
                   text + "'");
    }
  }
  if (wish.image.empty() || std::any_of(wish.image.begin(), wish.image.end(),
                                        [](char c) { return c >= 0 && c <= ' '; })) {
    problems.Add("--image must be one word: '" + wish.image + "'");
  }
}

}  // namespace

Result<std::string> ParseK8sManifest(const std::vector<std::string>& args) {
  VerbLine line(
      "Prints a manifest for Kubernetes that trains PROGRAM, ready for kubectl: ddprun "
      "k8s-manifest "
      "--nodes=2:8 --gpus=8 PROGRAM [arguments] > job.yaml",
      "k8s-manifest");
  RawManifest raw;
  AddManifestFlags(line.app, raw);
  ASSIGN_OR_RETURN(const std::vector<Setting> given, line.ParseUpToProgram(args));
  if (line.help) {
    return line.app.help();
  }
  ManifestWish wish;
  Problems problems;
  wish.form = raw.train_job ? ManifestForm::kTrainJob
              : raw.job_set ? ManifestForm::kJobSet
                            : ManifestForm::kJob;
  if (raw.job_set && raw.train_job) {
    problems.Add("--jobset and --trainjob exclude each other");
  }
  if (!raw.train_job && std::any_of(given.begin(), given.end(), [](const Setting& setting) {
        return setting.name == "runtime";
      })) {
    problems.Add("--runtime needs --trainjob");
  }
  ReadNodes(raw.nodes, wish, problems);
  TakeNumber("--gpus", raw.gpus, 0, wish.gpus, problems);
  TakeNumber("--nproc-per-node", raw.workers, 0, wish.workers, problems);
  TakeNumber("--grace", raw.grace, 1, wish.grace, problems);
  ReadQuantities(raw, wish, problems);
  ReadNames(raw, wish, problems);
  wish.program = line.rest;
  if (wish.program.empty() || wish.program.front().empty()) {
    problems.Add("no program is given: ddprun k8s-manifest [options] PROGRAM [arguments]");
  }
  if (!problems.text.empty()) {
    return Error{ErrorKind::kInvalid, problems.text};
  }
  return Manifest(wish);
}

}  // namespace ddprun
