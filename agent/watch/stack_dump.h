// Where every thread of a process stands, as text. First the program's own frames: from a Python
// itself where ddprun's package watches it; else, where these are installed, from py-spy for a
// Python and from gdb for anything else. Then the kernel's view. (gdb reads torch in 2 s of CPU
// time, in 8 s if it also demangles all its names. It knows no frame of Python.)
//
// For a process of its own (`ddprun stacks`), since it blocks: on /proc, on the process, and on the
// tools, which get `limit` at most and are killed then. Bounded: kMaxThreads threads and
// kMaxToolBytes bytes. Never changes the process, but for the moment in which a tool holds it. A
// process that is to continue
// (`live`) is held by no tool while it is stopped or waits in the kernel where nothing wakes it: a
// tool that is killed there could leave it stopped for ever. One that was stopped so is continued.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <string_view>

#include "common/time.h"

namespace ddprun {

inline constexpr std::size_t kMaxThreads = 256;
inline constexpr std::size_t kMaxToolBytes = 256 * 1024;

// These follow the name of the tool that would have found more.
inline constexpr const char* kToolIsMissing = " is not in PATH: this is all that is known)";
inline constexpr const char* kToolTookTooLong = " took too long: stopped)";

enum class StacksFound {
  kAll,
  kKernelsOnly,  // A Python that runs, but whose frames no source shows: its interpreter may be
                 // held.
  kNoProcess,
};

// Calls `put` with each part. `ask`: worker_answer.h's socket; empty: none.
StacksFound DumpStacks(pid_t pid, Duration limit, bool live, const std::string& ask,
                       const std::function<void(std::string_view)>& put);

}  // namespace ddprun
