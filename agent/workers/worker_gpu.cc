#include "agent/workers/worker_gpu.h"

#include <vector>

#include "common/text.h"

namespace ddprun {

Result<std::map<std::string, std::string>> AloneOnItsGpu(
    std::uint32_t local_rank, const std::map<std::string, std::string>& agent_environment) {
  // ROCm looks at its own list first.
  const auto hip = agent_environment.find("HIP_VISIBLE_DEVICES");
  const bool rocm = hip != agent_environment.end() && !hip->second.empty();
  const auto list = rocm ? hip : agent_environment.find("CUDA_VISIBLE_DEVICES");
  std::string gpu = std::to_string(local_rank);
  if (list != agent_environment.end()) {
    const std::vector<std::string> gpus = Split(list->second, ',');
    if (local_rank >= gpus.size()) {
      return Error{ErrorKind::kNotFound,
                   "--virtual-local-rank gives each worker one GPU, but " + list->first + "='" +
                       list->second + "' has " + std::to_string(gpus.size()) +
                       ", and none for local rank " + std::to_string(local_rank)};
    }
    gpu = Trimmed(gpus[local_rank]);
  }
  std::map<std::string, std::string> variables = {{"LOCAL_RANK", "0"},
                                                  {"CUDA_VISIBLE_DEVICES", gpu}};
  if (rocm) {
    variables["HIP_VISIBLE_DEVICES"] = gpu;
  }
  return variables;
}

}  // namespace ddprun
