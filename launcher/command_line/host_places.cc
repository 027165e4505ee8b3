#include "launcher/command_line/host_places.h"

#include <utility>

#include "launcher/command_line/gpus.h"
#include "proto/worker_env.h"

namespace ddprun {

MachineRoots HostRoots() {
  const std::filesystem::path root = GetProcessEnv("DDPRUN_HOST_ROOT").value_or("/");
  return {root / "sys", root / "proc", root / "dev"};
}

HostWatchOptions HostPlaces(const std::filesystem::path& run, const std::string& logs) {
  HostWatchOptions host;
  host.roots = HostRoots();
  host.visible_gpus = VisibleGpuList();
  const std::pair<std::string, std::string> places[] = {
      {"run", run.native()}, {"logs", logs}, {"tmp", GetProcessEnv("TMPDIR").value_or("/tmp")}};
  for (const auto& [name, path] : places) {
    if (!path.empty()) {
      host.places.emplace_back(name, path);
    }
  }
  return host;
}

}  // namespace ddprun
