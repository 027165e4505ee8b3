#include "launcher/preparation.h"

#include "agent/worker_gpu.h"
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
  auto list = GetProcessEnv("CUDA_VISIBLE_DEVICES");
  if (const auto hip = GetProcessEnv("HIP_VISIBLE_DEVICES"); hip && !hip->empty()) {
    list = hip;  // ROCm looks at its own list first.
  }
  request.gpus = VisibleGpus(ListGpus(roots), list);
  return PlanNumaBinding(request, roots);
}

}  // namespace

Result<Preparation> Prepare(const LaunchConfig& config) {
  Preparation preparation;
  ASSIGN_OR_RETURN(preparation.command,
                   FindCommand({config.program, config.args, config.module, config.no_python,
                                config.run_path, config.pass_local_rank, config.called_from},
                               GetProcessEnv));
  const std::map<std::string, std::string> environment = ProcessEnvironment();
  if (config.virtual_local_rank) {
    RETURN_IF_ERROR(AloneOnItsGpu(config.workers - 1, environment));
  }
  for (const auto& [name, value] : environment) {
    if (config.scrub_env && BelongsToMpi(name)) {
      preparation.removed.push_back(name);
    }
  }
  preparation.cpus = AllowedCpus();
  preparation.omp_threads = OmpThreads(environment, config.workers, preparation.cpus);
  ASSIGN_OR_RETURN(preparation.numa, PlanCpus(config));
  return preparation;
}

}  // namespace ddprun
