#include "launcher/kubernetes/manifest.h"

#include <algorithm>
#include <map>
#include <sstream>

#include "launcher/kubernetes/yaml_quoted.h"

namespace ddprun {
namespace {

constexpr std::size_t kLongestLabel = 63;   // Of a pod's host name.
constexpr std::uint32_t kLeftOfGrace = 30;  // Seconds from the workers' last to the pod's.

constexpr const char* kHead = R"(%story%
#   kubectl apply -f FILE
# The claim %claim% is yours: a volume that all pods can write at once (ReadWriteMany), for
# checkpoints and for what the nodes share. The image is yours too: ddprun is in it, and PROGRAM.
)";

constexpr const char* kService = R"(apiVersion: v1
kind: Service
metadata:
  # Its name is the pods' subdomain: they find the first one as %name%-0.%name%.
  name: "%name%"
spec:
  # Headless: a name for each pod, and no address in between.
  clusterIP: None
  # A pod is ready once it trains, and must be found before that.
  publishNotReadyAddresses: true
  selector:
    batch.kubernetes.io/job-name: "%name%"
---
apiVersion: batch/v1
kind: Job
metadata:
  name: "%name%"
spec:
)";

constexpr const char* kJobSet = R"(apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata:
  name: "%name%"
# No failurePolicy: where the job has failed another start would fail alike. What can be
# mended ddprun mends in place, without new pods.
spec:
  network:
    # Brings the headless service: pods are %name%-node-0-0.%name%, %name%-node-0-1.%name%, ...
    enableDNSHostnames: true
    # A pod is ready once it trains, and must be found before that.
    publishNotReadyAddresses: true
  replicatedJobs:
  - name: node
    # One job, with a pod for each node: places are counted within a job.
    replicas: 1
    template:
      spec:
)";

constexpr const char* kJobSpec = R"(# Each pod has a number, its node's place in the run.
completionMode: Indexed
%grows%completions: %pods%
# All at once.
parallelism: %pods%
# A worker that fails is restarted in its pod and never gets here; pods that end are
# evicted ones, and no number of those makes a run bad.
backoffLimit: 2147483647
# Another pod in a place only when the one before is surely gone.
podReplacementPolicy: Failed
podFailurePolicy:
  rules:
  # Drained, preempted, a host that is gone: no failure.
  - action: Ignore
    onPodConditions:
    - type: DisruptionTarget
      status: "True"
  # A wrong command line (2), or what ddprun has given up (--give-up-code): not again.
  - action: FailJob
    onExitCodes:
      containerName: train
      operator: In
      values: [2, 93]
template:
  spec:
    # What podFailurePolicy asks for; ddprun restarts workers without a new container.
    restartPolicy: Never
%subdomain%    # From TERM to KILL, when a pod is evicted or the job deleted.
    terminationGracePeriodSeconds: %grace%
    containers:
    - name: train
      image: %image%
      # PID 1 of the container is ddprun itself: it needs no shell and no init.
      command:
%command%%env%%resources%      # Ready: in a world, or a spare. Alive: its loop turns. Neither asks for steps: a pod
      # killed for standing still takes the evidence along. That is for --hang-timeout.
      readinessProbe:
        httpGet: {path: /readyz, port: 8081}
      livenessProbe:
        httpGet: {path: /livez, port: 8081}
      volumeMounts:
      - name: ckpt
        mountPath: /ckpt
      - name: shm
        mountPath: /dev/shm
    volumes:
    - name: ckpt
      persistentVolumeClaim:
        claimName: "%claim%"
    # Ranks and data loaders share memory; a container has 64 MiB of it otherwise.
    - name: shm
      emptyDir: {medium: Memory}
)";

constexpr const char* kTrainJob = R"(apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata:
  name: "%name%"
spec:
  # The cluster's runtime for torch: it gives pods their places in PET_ variables.
  runtimeRef:
    name: "%runtime%"
  trainer:
    numNodes: %pods%
    image: %image%
    # PID 1 of the container is ddprun itself: it needs no shell and no init.
    command:
%command%%env%%resources%  # What a TrainJob cannot say of its pods itself.
  runtimePatches:
  - manager: ddprun.k8s-manifest/user
    trainingRuntimeSpec:
      template:
        spec:
          replicatedJobs:
          - name: node
            template:
              spec:
                template:
                  spec:
                    # From TERM to KILL, when a pod is evicted.
                    terminationGracePeriodSeconds: %grace%
                    containers:
                    - name: node
                      volumeMounts:
                      - name: ckpt
                        mountPath: /ckpt
                      - name: shm
                        mountPath: /dev/shm
                    volumes:
                    - name: ckpt
                      persistentVolumeClaim:
                        claimName: "%claim%"
                    # Ranks and data loaders share memory; a container has 64 MiB of it
                    # unless told otherwise.
                    - name: shm
                      emptyDir: {medium: Memory}
)";

constexpr const char* kEnv = R"(env:
# Each job a run directory of its own: another job of this name is another run.
- name: JOB_UID
  valueFrom:
    fieldRef:
      fieldPath: metadata.labels['batch.kubernetes.io/controller-uid']
)";

bool IsElastic(const ManifestWish& wish) {
  return wish.least < wish.most;
}

// A Job can grow, by a patch; the others have no such door, and begin with all.
std::uint32_t Pods(const ManifestWish& wish) {
  return wish.form == ManifestForm::kJob ? wish.least : wish.most;
}

std::string Story(const ManifestWish& wish) {
  const std::string most = std::to_string(wish.most);
  if (IsElastic(wish) && wish.form == ManifestForm::kJob) {
    return "# " + std::to_string(wish.least) + " to " + most +
           " pods, each a node with one ddprun. The run grows while it trains, and a pod that is\n"
           "# evicted leaves it: the others go on within seconds, and the pod that comes instead "
           "joins.";
  }
  if (IsElastic(wish)) {
    return "# " + most + " pods, each a node with one ddprun; " + std::to_string(wish.least) +
           " are enough. A pod that is evicted leaves the run:\n# the others go on within seconds, "
           "and the pod that comes instead joins.";
  }
  return "# " + most + (wish.most == 1 ? " pod, a node" : " pods, each a node") +
         " with one ddprun. Where a pod is evicted all save, and go on when it is back;\n"
         "# --nodes=MIN:MAX is for runs that need not wait.";
}

struct Argument {
  std::string reason;  // "": with the one before.
  std::string word;
  bool is_ours = true;  // $(NAME) counts.
};

std::vector<Argument> OurArguments(const ManifestWish& wish) {
  const std::string most = std::to_string(wish.most);
  const std::uint32_t save =
      wish.grace > 2 * kLeftOfGrace ? wish.grace - kLeftOfGrace : std::max(1u, wish.grace / 2);
  std::vector<Argument> words{
      {"", "ddprun"},
      {IsElastic(wish) ? "How few nodes train, and how many can." : "Nodes, as pods below.",
       "--nnodes=" + (IsElastic(wish) ? std::to_string(wish.least) + ":" : "") + most}};
  if (wish.form != ManifestForm::kTrainJob) {
    words[1].reason = IsElastic(wish) ? "How few nodes train, and how many can."
                                      : "As completions: no variable of a pod says it.";
  } else {
    words[1].reason = IsElastic(wish) ? "How few train; PET_NNODES is but one number." : "";
    words.push_back(
        {"An endpoint in place of PET_MASTER_PORT: a rendezvous that another pod can take over.",
         "--rdzv-endpoint=$(PET_MASTER_ADDR):29400"});
  }
  if (wish.workers + wish.gpus > 0) {
    words.push_back(
        {wish.workers == 0 ? "One worker per GPU." : "Workers per node.",
         "--nproc-per-node=" + std::to_string(wish.workers ? wish.workers : wish.gpus)});
  }
  if (wish.most > 1) {
    words.push_back(
        {"Shared by all: where the pod that carries the rendezvous is lost another one does.\n"
         "# The token is in it, so nobody else joins.",
         "--run-dir=/ckpt/run-$(JOB_UID)"});
  }
  words.push_back(
      {"Failures of workers in an hour after which it is given up, and with which code.",
       "--max-restarts=20"});
  words.push_back({"", "--restart-window=1h"});
  words.push_back({"", "--give-up-code=93"});
  words.push_back({"So long workers may save after TERM; the pod has a bit longer.",
                   "--shutdown-timeout=" + std::to_string(save)});
  if (wish.form != ManifestForm::kTrainJob) {
    words.push_back({"Where the probes ask.", "--http-listen=:8081"});
  }
  return words;
}

Result<std::string> CommandLines(const ManifestWish& wish) {
  std::vector<Argument> words = OurArguments(wish);
  bool placed = false;
  for (const std::string& word : wish.program) {
    words.push_back(
        {&word == &wish.program.front() ? "The program, and what it is given." : "", word, false});
    placed = placed || word.starts_with("--checkpoint-dir");
  }
  const std::string& file = wish.program.front();
  if (file.substr(file.rfind('/') + 1) == "ddprun-train" && !placed) {
    words.push_back({"Outlives the job: the next one of this name goes on from there.",
                     "--checkpoint-dir=/ckpt/" + wish.name});
  }
  std::string lines;
  for (const Argument& argument : words) {
    ASSIGN_OR_RETURN(const std::string quoted,
                     argument.is_ours ? YamlQuoted(argument.word) : YamlArgument(argument.word));
    lines += argument.reason.empty() ? "" : "# " + argument.reason + "\n";
    lines += "- " + quoted + "\n";
  }
  return lines;
}

std::string Indented(const std::string& text, std::size_t by) {
  std::stringstream lines(text);
  std::string indented;
  for (std::string line; std::getline(lines, line);) {
    indented += std::string(line.empty() ? 0 : by, ' ') + line + "\n";
  }
  return indented;
}

Result<std::string> ResourceLines(const ManifestWish& wish) {
  ASSIGN_OR_RETURN(const std::string cpus, YamlQuoted(wish.cpus));
  ASSIGN_OR_RETURN(const std::string memory, YamlQuoted(wish.memory));
  std::string lines;
  lines += wish.gpus > 0 ? "  nvidia.com/gpu: " + std::to_string(wish.gpus) + "\n" : "";
  lines += wish.cpus.empty() ? "" : "  cpu: " + cpus + "\n";
  lines += wish.memory.empty() ? "" : "  memory: " + memory + "\n";
  if (lines.empty()) {
    return lines;
  }
  return (wish.form == ManifestForm::kTrainJob ? "# Per node.\nresourcesPerNode:\n  limits:\n"
                                               : "# Per pod.\nresources:\n  limits:\n") +
         Indented(lines, 2);
}

using Values = std::map<std::string, std::string>;

// Each %mark% once: what is put in is not looked at again.
std::string Filled(const std::string& text, const Values& values) {
  std::string filled;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t mark = text.find('%', at);
    const std::size_t end = mark == std::string::npos ? mark : text.find('%', mark + 1);
    filled.append(text, at, mark == std::string::npos ? mark : mark - at);
    if (mark == std::string::npos) {
      break;
    }
    filled += values.at(text.substr(mark + 1, end - mark - 1));
    at = end + 1;
  }
  return filled;
}

std::string Grows(const ManifestWish& wish) {
  const std::string most = std::to_string(wish.most);
  return wish.form != ManifestForm::kJob || !IsElastic(wish)
             ? ""
             : "# To grow while it trains, both at once:\n#   kubectl patch job " + wish.name +
                   " -p '{\"spec\": {\"completions\": " + most + ", \"parallelism\": " + most +
                   "}}'\n";
}

}  // namespace

std::size_t LongestName(const ManifestWish& wish) {
  const std::string last = std::to_string(std::max(1u, wish.most) - 1);
  return kLongestLabel - std::string(wish.form == ManifestForm::kJob ? "-" : "-node-0-").size() -
         last.size();
}

Result<std::string> Manifest(const ManifestWish& wish) {
  const std::size_t deep = wish.form == ManifestForm::kTrainJob ? 4 : 6;
  ASSIGN_OR_RETURN(const std::string command, CommandLines(wish));
  ASSIGN_OR_RETURN(const std::string resources, ResourceLines(wish));
  ASSIGN_OR_RETURN(const std::string image, YamlQuoted(wish.image));
  const Values values{
      {"story", Story(wish)},
      {"grows", Grows(wish)},
      {"subdomain",
       wish.form == ManifestForm::kJob
           ? "    # The service's, so that pods have names.\n    subdomain: \"" + wish.name + "\"\n"
           : ""},
      {"command", Indented(command, deep)},
      {"env", wish.most > 1 ? Indented(kEnv, deep) : ""},
      {"resources", Indented(resources, deep)},
      {"pods", std::to_string(Pods(wish))},
      {"grace", std::to_string(wish.grace)},
      {"image", image},
      {"runtime", wish.runtime},
      {"claim", wish.claim},
      {"name", wish.name}};
  const std::string job = Filled(kJobSpec, values);
  const std::string body = wish.form == ManifestForm::kTrainJob ? Filled(kTrainJob, values)
                           : wish.form == ManifestForm::kJobSet
                               ? Filled(kJobSet, values) + Indented(job, 8)
                               : Filled(kService, values) + Indented(job, 2);
  return Filled(kHead, values) + body;
}

}  // namespace ddprun
