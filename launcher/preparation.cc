#include "launcher/preparation.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "agent/workers/python_hook.h"
#include "agent/workers/worker_gpu.h"
#include "launcher/scrub.h"

namespace ddprun {
namespace {

Result<NumaPlan> PlanCpus(const LaunchConfig& config) {
  if (config.numa == NumaMode::kNone) {
    return NumaPlan{};
  }
  const MachineRoots roots;
  NumaRequest request{.mode = config.numa, .workers = config.workers};
  request.allowed = AllowedCpuSet();
  request.gpus = VisibleGpus(ListGpus(roots), GetProcessEnv);
  return PlanNumaBinding(request, roots);
}

// Without a word from the user only where workers may be started again: it takes memory.
void PlanPreload(const LaunchConfig& config, Preparation& preparation) {
  if (config.preload == "none") {
    return;
  }
  preparation.preload_auto = config.preload == "auto";
  const RunSpec& spec = config.spec;
  const bool restarts =
      spec.max_restarts > 0 || spec.min_nodes < spec.max_nodes || config.keep_warm > Duration{0};
  std::error_code removed;  // Programs that need no working directory run without one.
  const auto python =
      ReadPythonCommand(preparation.command, std::filesystem::current_path(removed));
  if (!python) {
    preparation.no_preload =
        preparation.preload_auto ? "" : "ignoring --preload: " + python.error().message;
  } else if (preparation.preload_auto && !restarts) {
    preparation.no_preload = "workers are not started again (--max-restarts, --nnodes=MIN:MAX)";
  } else {
    preparation.preload = preparation.preload_auto ? "torch,torch._dynamo" : config.preload;
  }
}

}  // namespace

Result<Preparation> Prepare(const LaunchConfig& config) {
  if (config.attached && config.standalone && ::isatty(STDIN_FILENO) != 1) {
    return Error{
        ErrorKind::kInvalid,
        "--attach-rank=" + std::to_string(*config.attached) +
            " gives a worker ddprun's terminal, but ddprun has none: its standard input is "
            "not a terminal (under ssh: ssh -t; under srun: srun --pty) [no-terminal]"};
  }
  Preparation preparation;
  ASSIGN_OR_RETURN(preparation.command, FindCommand(config, GetProcessEnv));
  std::map<std::string, std::string> environment = config.variables;
  environment.merge(ProcessEnvironment());
  if (config.virtual_local_rank) {
    RETURN_IF_ERROR(AloneOnItsGpu(config.workers - 1, environment));
  }
  for (const auto& [name, value] : environment) {
    if (config.scrub_env && BelongsToMpi(name)) {
      preparation.removed.push_back(name);
    }
  }
  const LaunchContext& context = config.context;
  preparation.cpus = AllowedCpus();
  if (context.cpus) {
    preparation.cpus = std::clamp<std::size_t>(*context.cpus, 1, preparation.cpus);
  }
  preparation.omp_threads = OmpThreads(environment, config.workers, preparation.cpus);
  if (context.task_slot && !environment.contains("OMP_NUM_THREADS")) {
    // If the scheduler does not say, each takes its part of the CPUs that all may use.
    const std::size_t shares = context.cpus ? 1 : context.task_slot->local_size;
    preparation.omp_threads = std::max<std::size_t>(1, preparation.cpus / shares);
  }
  ASSIGN_OR_RETURN(preparation.numa, PlanCpus(config));
  PlanPreload(config, preparation);
  return preparation;
}

}  // namespace ddprun
