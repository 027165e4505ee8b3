// Where a machine's facts are looked for, and where a run writes.
#pragma once

#include <filesystem>
#include <string>

#include "agent/host/host_watch.h"

namespace ddprun {

// DDPRUN_HOST_ROOT, below which the kernel's files lie, as in a container that has the host's own
// elsewhere; else /.
MachineRoots HostRoots();

// An empty path is left out.
HostWatchOptions HostPlaces(const std::filesystem::path& run, const std::string& logs);

}  // namespace ddprun
