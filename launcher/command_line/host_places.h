// Where a machine's facts are looked for, and where a run may write.
#pragma once

#include <filesystem>
#include <string>

#include "agent/host/host_watch.h"
#include "proto/worker_env.h"

namespace ddprun {

// DDPRUN_HOST_ROOT, below which the kernel's files lie, as in a container that has the host's own
// elsewhere; else /.
MachineRoots HostRoots();

HostWatchOptions WatchedHost();

struct TemporaryPlace {
  std::filesystem::path path;
  std::string remark;  // Why it is not TMPDIR; empty: it is, or that is not set.
};

// TMPDIR where files can be made in it, else /tmp or /var/tmp, as Python's tempfile does.
TemporaryPlace FindTemporaryPlace(const GetEnv& get_env = GetProcessEnv);

}  // namespace ddprun
