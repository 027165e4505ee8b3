// Whether this machine has memory to spare for a process that the user did not ask for.
//
// Reads files of /proc and /sys alone.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "common/cgroup.h"

namespace ddprun {

// Where the kernel shows the state of memory.
struct MemoryFiles {
  std::filesystem::path proc = "/proc";
  std::optional<Cgroup> cgroup;  // None: no control group limits memory.
};

// Bytes that can be used without swapping: the machine's available memory, or the room that is left
// in the control group or in one above it; the least of them. None: the kernel does not say.
std::optional<std::uint64_t> MemoryRoom(const MemoryFiles& files);

// Why `bytes` more should not be used now; "": they may be. Memory is short also where processes
// waited for it lately (/proc/pressure/memory).
std::string WhyNoRoom(std::uint64_t bytes, const MemoryFiles& files);

}  // namespace ddprun
