#include "launcher/verbs/verb_k8s_manifest.h"

#include <algorithm>

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

// As Kubernetes names things: a-z, 0-9 and inner hyphens, from a letter on where it names a host.
bool IsName(const std::string& text, std::size_t longest, bool is_host) {
  const auto inner = [&](char c) {
    return IsLower(c) || (c >= '0' && c <= '9') || c == '-' || (c == '.' && !is_host);
  };
  const auto edge = [](char c) { return c != '-' && c != '.'; };
  return !text.empty() && text.size() <= longest && std::all_of(text.begin(), text.end(), inner) &&
         edge(text.front()) && edge(text.back()) && (!is_host || IsLower(text.front()));
}

void ReadNodes(const std::string& text, ManifestWish& wish, Problems& problems) {
  const std::size_t colon = text.find(':');
  TakeNumber("--nodes", text.substr(0, colon), 1, wish.least, problems);
  wish.most = wish.least;
  if (colon == std::string::npos) {
    return;
  }
  wish.most = 0;
  TakeNumber("--nodes", text.substr(colon + 1), 1, wish.most, problems);
  if (colon == 0 || wish.most < wish.least) {
    problems.Add("--nodes must be N or MIN:MAX: '" + text + "'");
  }
}

void ReadNames(const RawManifest& raw, ManifestWish& wish, Problems& problems) {
  wish.name = raw.name;
  wish.claim = raw.claim;
  wish.runtime = raw.runtime;
  wish.image = raw.image;
  wish.cpus = raw.cpus;
  wish.memory = raw.memory;
  const std::size_t longest = LongestName(wish);
  if (!IsName(wish.name, longest, true)) {
    problems.Add("--name must be a-z, 0-9 and inner hyphens from a letter on, " +
                 std::to_string(longest) + " at most, since pods' host names begin with it: '" +
                 wish.name + "'");
  }
  for (const auto& [flag, text] :
       {std::pair("--claim", wish.claim), std::pair("--runtime", wish.runtime)}) {
    if (!IsName(text, kLongestObject, false)) {
      problems.Add(std::string(flag) + " must be a name of Kubernetes: '" + text + "'");
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
  ReadNames(raw, wish, problems);
  wish.program = line.rest;
  if (wish.program.empty()) {
    problems.Add("no program is given: ddprun k8s-manifest [options] PROGRAM [arguments]");
  }
  if (!problems.text.empty()) {
    return Error{ErrorKind::kInvalid, problems.text};
  }
  return Manifest(wish);
}

}  // namespace ddprun
