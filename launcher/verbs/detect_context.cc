#include "launcher/verbs/detect_context.h"

#include <unistd.h>

#include <filesystem>

#include "common/files.h"
#include "launcher/environment/detect.h"

namespace ddprun {
namespace {

constexpr std::size_t kMaxHostFile = 16 << 20;  // A line for each of a hundred thousand hosts.

}  // namespace

bool IsWorker(const GetEnv& get_env) {
  return get_env("LOCAL_RANK") && (get_env("DDPRUN_WORLD_ID") || get_env("TORCHELASTIC_RUN_ID"));
}

Result<LaunchContext> DetectContext(const GetEnv& get_env, const std::vector<Setting>& said,
                                    const std::string& name) {
  ContextQuery query{.get_env = get_env, .said = said};
  if (IsWorker(get_env)) {  // The scheduler's variables placed the launch that it is a worker of.
    query.get_env = [](const std::string&) { return std::nullopt; };
  }
  query.gpus = CountDevices();
  query.parent = ::getppid();
  std::error_code none;
  query.directory = std::filesystem::current_path(none).native();
  query.read_file = [](const std::string& path) { return ReadFile(path, kMaxHostFile); };
  if (name == "torchrun") {
    query.said.push_back({"rdzv-endpoint", "torchrun's own", "called as torchrun"});
  }
  return ReadContext(query);
}

std::string WhyImpossible(const LaunchConfig& config) {
  const LaunchContext& context = config.context;
  const bool counts = context.IsPlaced() && !context.task_slot && !context.hosts.empty();
  if (!counts || config.spec.min_nodes <= context.hosts.size()) {
    return "";
  }
  return "--nnodes needs " + std::to_string(config.spec.min_nodes) + " nodes, but " + context.name +
         " has " + std::to_string(context.hosts.size()) +
         ". Leave the flag out, or ask the scheduler for more nodes";
}

std::vector<std::string> WarningsOf(const LaunchConfig& config, std::size_t cpus) {
  const LaunchContext& context = config.context;
  std::vector<std::string> warnings = context.warnings;
  const bool slurm = !context.job.empty();
  if (slurm && cpus < config.workers) {
    const std::string want = std::to_string(config.workers);
    warnings.push_back("Slurm gives this node " + std::to_string(cpus) + " CPU" +
                       (cpus == 1 ? "" : "s") + " for " + want +
                       " workers. Give srun --cpus-per-task=" + want +
                       " or more (srun does not use sbatch's value)");
  }
  return warnings;
}

}  // namespace ddprun
