// What `kubectl describe pod` shows of a pod whose run failed: the root cause in words, in the file
// that Kubernetes keeps for that.
//
// Only where Kubernetes is around and the file is there; never a file that is no ordinary one, nor
// one that the error file is written to (TORCHELASTIC_ERROR_FILE). Waits for the disk a moment at
// most: for a process about to exit.
#pragma once

#include <filesystem>
#include <string>

#include "common/result.h"
#include "proto/worker_env.h"
#include "rendezvous/core/messages.h"

namespace ddprun {

inline constexpr std::size_t kMaxTerminationLog = 4096;  // Kubernetes cuts what is longer.

// One sentence, what the root cause left as its error, and the end of its last lines: as much as
// there is room for.
std::string TerminationText(const Finish& finish);

void WriteTerminationLog(const std::string& text, const GetEnv& get_env,
                         const std::filesystem::path& file = "/dev/termination-log");

}  // namespace ddprun
