// Whether other machines see a directory too.
#pragma once

#include <filesystem>
#include <string_view>

namespace ddprun {

// `directory` is absolute; `mounts` is the text of /proc/self/mountinfo. True on file systems that
// a cluster shares: NFS, Lustre, GPFS, BeeGFS, CephFS, WekaFS. Nothing is asked of the file system,
// so one that hangs is not in the way.
bool IsShared(const std::filesystem::path& directory, std::string_view mounts);

}  // namespace ddprun
