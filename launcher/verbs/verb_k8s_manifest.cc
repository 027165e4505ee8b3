#include "launcher/verbs/verb_k8s_manifest.h"

#include <re2/re2.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "common/text.h"
#include "launcher/command_line/flags.h"
#include "launcher/verbs/example_files.h"
#include "launcher/verbs/filled_example.h"
#include "launcher/verbs/verb_line.h"

namespace ddprun {
namespace {

constexpr std::size_t kLongestObject = 253;  // Of names that are no host's.
constexpr std::size_t kLongestLabel = 63;    // Of a pod's host name.
constexpr std::uint32_t kLeftOfGrace = 30;   // Seconds from the workers' last to the pod's.

struct ManifestOptions {
  // The fewest nodes that train; more than the cluster has, and pods wait.
  std::uint32_t least = 1;
  // The most nodes that train; more than `least`: the run is elastic.
  std::uint32_t most = 1;
  // GPUs per node; 0: no limit asks for any.
  std::uint32_t gpus = 0;
  // Workers per node; 0: one per GPU, else 1.
  std::uint32_t workers = 0;
  // Seconds from TERM to KILL of a pod: too few, and workers are killed before they have saved.
  std::uint32_t grace = 150;
  // The program with its arguments; empty: refused.
  std::vector<std::string> program;
  // Texts of Kubernetes, as it names and counts.
  std::string cpus, memory, image = "train:latest", claim = "ckpt", name = "train";
  std::string runtime = "torch-distributed";
  bool job_set = false, train_job = false;
};

Result<void> ReadNodes(const std::string& text, ManifestOptions& options) {
  const std::size_t colon = text.find(':');
  const auto least = NotNegative(text.substr(0, colon));
  const auto most = colon == text.npos ? least : NotNegative(text.substr(colon + 1));
  if (!least || !most || *least < 1 || *most < *least || *most > kMostOfAJob) {
    return Invalid("--nodes must be N or MIN:MAX, from 1 to " + std::to_string(kMostOfAJob), text);
  }
  options.least = *least;
  options.most = *most;
  return {};
}

void AddManifestFlags(FlagRows& flags, ManifestOptions& options) {
  flags.Read("--nodes,--nnodes", "1", "N|MIN:MAX",
             "Nodes, a pod each: N, or MIN:MAX for a run that continues without lost nodes and "
             "grows (default 1)",
             [&options](const std::string& text) { return ReadNodes(text, options); });
  flags.Count("--gpus", options.gpus, 0, "N", "GPUs per node, each with a worker (default: none)");
  flags.Value("--cpus", options.cpus, "N",
              "CPUs per node, as Kubernetes takes it (default: no limit)");
  flags.Value("--memory", options.memory, "QUANTITY",
              "Memory per node, as Kubernetes takes it: 64Gi (default: no limit)");
  flags.Count("--nproc-per-node", options.workers, 0, "N",
              "Workers per node (default: one per GPU, else 1)");
  flags.Value("--image", options.image, "IMAGE",
              "The container's image, which has ddprun and PROGRAM (default train:latest)");
  flags.Value("--claim", options.claim, "NAME",
              "The PersistentVolumeClaim that all nodes share (default ckpt)");
  flags.Seconds("--grace", options.grace,
                "From TERM to KILL of a pod; workers have 30 s less to save (default 150s)");
  flags.Value("--name", options.name, "NAME", "The job's name (default train)");
  flags.Switch("--jobset", options.job_set, "A JobSet (default: an Indexed Job and a Service)");
  flags.Switch("--trainjob", options.train_job, "A TrainJob of Kubeflow's Trainer");
  flags.Value("--runtime", options.runtime, "NAME",
              "With --trainjob: its ClusterTrainingRuntime (default torch-distributed)");
}

// a-z, 0-9 and inner hyphens, as everything that Kubernetes names.
constexpr const char* kLabelForm = "[a-z0-9](?:[a-z0-9-]*[a-z0-9])?";

// Labels with dots between them.
bool IsName(const std::string& text) {
  return text.size() <= kLongestObject &&
         RE2::FullMatch(text, std::string(kLabelForm) + "(?:\\." + kLabelForm + ")*");
}

// "1.5Gi": a number above 0, with what matches `unit` behind it.
bool IsQuantity(const std::string& text, const std::string& unit) {
  return RE2::FullMatch(text, "\\d*\\.?\\d*" + unit) &&
         text.find_first_of("123456789") != text.npos;
}

void CheckQuantities(const ManifestOptions& options, Problems& problems) {
  if (!options.cpus.empty() && !IsQuantity(options.cpus, "m?")) {
    problems.Add(
        "--cpus must be a number above 0 (500m are 500 thousandths), as 4, 0.5 or 500m: '" +
        options.cpus + "'");
  }
  if (!options.memory.empty() && !IsQuantity(options.memory, "(?:k|[MGTPE]|[KMGTPE]i)?")) {
    problems.Add(
        "--memory must be a number of bytes above 0, or a number with a unit of Kubernetes, as "
        "64Gi: '" +
        options.memory + "'");
  }
}

void CheckNames(const ManifestOptions& options, Problems& problems) {
  const std::size_t longest =
      kLongestLabel - std::string(options.job_set || options.train_job ? "-node-0-" : "-").size() -
      std::to_string(options.most - 1).size();  // The last pod's host name.
  if (!RE2::FullMatch(options.name, kLabelForm) || IsDigit(options.name.front()) ||
      options.name.size() > longest) {
    problems.Add(
        "--name must begin with a letter and have only a-z, 0-9 and inner hyphens, at most " +
        std::to_string(longest) + " characters, because the pods' host names begin with it: '" +
        options.name + "'");
  }
  for (const auto& [flag, text] :
       {std::pair("--claim", options.claim), std::pair("--runtime", options.runtime)}) {
    if (!IsName(text)) {
      problems.Add(std::string(flag) +
                   " must be a name of Kubernetes (a-z, 0-9, inner hyphens, single dots): '" +
                   text + "'");
    }
  }
  if (options.image.empty() ||
      std::ranges::any_of(options.image, [](char c) { return c >= 0 && c <= ' '; })) {
    problems.Add("--image must be one word: '" + options.image + "'");
  }
}

// A string of JSON, which every reader of YAML 1.1 and 1.2 reads alike.
Result<std::string> JsonString(const std::string& word) {
  // A character above U+FFFF stays as it is: JSON would escape it as two halves, which YAML lacks.
  const bool escaped = std::ranges::none_of(word, [](unsigned char c) { return c >= 0xF0; });
  try {
    return nlohmann::json(word).dump(-1, ' ', escaped);
  } catch (const nlohmann::json::type_error&) {
    return Invalid("a manifest must be UTF-8, and this word is not", word);
  }
}

// `args` of a container. kubelet replaces $(NAME) there, and reads $$ as one $.
Result<std::string> ProgramWords(const std::string& name, std::vector<std::string> program) {
  const std::string& file = program.front();
  if (file.substr(file.rfind('/') + 1) == "ddprun-train" &&
      std::ranges::none_of(
          program, [](const std::string& word) { return word.starts_with("--checkpoint-dir"); })) {
    program.push_back("--checkpoint-dir=/ckpt/" + name);
  }
  std::string words;
  for (const std::string& word : program) {
    std::string doubled;
    for (const char c : word) {
      doubled.append(c == '$' ? 2 : 1, c);
    }
    ASSIGN_OR_RETURN(const std::string quoted, JsonString(doubled));
    words += (words.empty() ? "" : ", ") + quoted;
  }
  return words;
}

std::string Limits(const ManifestOptions& options) {
  std::string limits = options.gpus > 0 ? "nvidia.com/gpu: " + std::to_string(options.gpus) : "";
  for (const auto& [name, amount] :
       {std::pair("cpu", options.cpus), std::pair("memory", options.memory)}) {
    if (!amount.empty()) {
      limits += (limits.empty() ? "" : ", ") + std::string(name) + ": \"" + amount + '"';
    }
  }
  return limits;
}

Result<std::string> Manifest(const ManifestOptions& options) {
  ASSIGN_OR_RETURN(const std::string program, ProgramWords(options.name, options.program));
  ASSIGN_OR_RETURN(const std::string image, JsonString(options.image));
  const std::string least = std::to_string(options.least);
  const std::string most = std::to_string(options.most);
  const std::string nodes = (options.least < options.most ? least + ":" : "") + most;
  const std::uint32_t workers = options.workers > 0 ? options.workers : std::max(1u, options.gpus);
  const std::uint32_t save = options.grace > 2 * kLeftOfGrace ? options.grace - kLeftOfGrace
                                                              : std::max(1u, options.grace / 2);
  return FilledExample(
      options.train_job              ? kTrainJobYaml
      : options.job_set              ? kJobSetYaml
      : options.least < options.most ? kElasticYaml
                                     : kJobYaml,
      {{"\"train\"", '"' + options.name + '"'},
       {"patch job train", "patch job " + options.name},
       {"train-0.train", options.name + "-0." + options.name},
       {"\"train:latest\"", image},
       {"\"ckpt\"", '"' + options.claim + '"'},
       {"\"torch-distributed\"", '"' + options.runtime + '"'},
       {"--nnodes=2:8", "--nnodes=" + nodes},
       {"--nnodes=8", "--nnodes=" + nodes},
       {"completions: 2", "completions: " + least},
       {"completions: 8", "completions: " + most},
       {"\"completions\": 8", "\"completions\": " + most},
       {"parallelism: 2", "parallelism: " + least},
       {"parallelism: 8", "parallelism: " + most},
       {"\"parallelism\": 8", "\"parallelism\": " + most},
       {"numNodes: 8", "numNodes: " + most},
       {"--nproc-per-node=8", "--nproc-per-node=" + std::to_string(workers)},
       {"nvidia.com/gpu: 8", Limits(options)},
       {"Seconds: 150", "Seconds: " + std::to_string(options.grace)},
       {"--shutdown-timeout=120", "--shutdown-timeout=" + std::to_string(save)},
       {R"("ddprun-train", "--model=mlp", "--checkpoint-dir=/ckpt/train")", program}});
}

}  // namespace

std::string ParseK8sManifest(VerbLine& line) {
  ManifestOptions options;
  AddManifestFlags(line.flags, options);
  if (!line.ParseUpToProgram()) {
    return "";
  }
  Problems& problems = line.problems;
  if (options.job_set && options.train_job) {
    problems.Add("--jobset and --trainjob exclude each other");
  }
  if (!options.train_job && ValueOf(line.settings, "runtime")) {
    problems.Add("--runtime needs --trainjob");
  }
  CheckQuantities(options, problems);
  CheckNames(options, problems);
  options.program = line.rest;
  if (options.program.empty() || options.program.front().empty()) {
    problems.Add("no program given. Usage: ddprun k8s-manifest [options] PROGRAM [arguments]");
    return "";
  }
  const Result<std::string> manifest = Manifest(options);
  problems.Check(manifest);
  return manifest ? *manifest : "";
}

}  // namespace ddprun
