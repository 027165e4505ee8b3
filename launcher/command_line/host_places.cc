#include "launcher/command_line/host_places.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "launcher/command_line/gpus.h"
#include "proto/worker_env.h"

namespace ddprun {

MachineRoots HostRoots() {
  const std::filesystem::path root = GetProcessEnv("DDPRUN_HOST_ROOT").value_or("/");
  return {root / "sys", root / "proc", root / "dev"};
}

HostWatchOptions WatchedHost() {
  return {HostRoots(), VisibleGpuList()};
}

TemporaryPlace FindTemporaryPlace(const GetEnv& get_env) {
  const std::string named = get_env("TMPDIR").value_or("");  // An empty name is none.
  std::string why;
  for (const std::string& place : {named, std::string("/tmp"), std::string("/var/tmp")}) {
    struct stat info {};
    if (place.empty()) {
      continue;
    }
    if (::stat(place.c_str(), &info) == 0 && ::access(place.c_str(), W_OK | X_OK) == 0 &&
        S_ISDIR(info.st_mode)) {
      return {place, why.empty()
                         ? ""
                         : "TMPDIR=" + named + " cannot be used (" + why + "): using " + place};
    }
    if (why.empty()) {
      why = S_ISREG(info.st_mode) ? "it is not a directory" : std::strerror(errno);
    }
  }
  return {named.empty() ? "/tmp" : named, ""};  // The error of its first use says the rest.
}

}  // namespace ddprun
