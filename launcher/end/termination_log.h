// The text that `kubectl describe pod` shows of a pod whose run failed: the root cause in words, in
// the file that Kubernetes keeps for that.
//
// Only where Kubernetes is around and the file is there; never a file that is no ordinary one, nor
// one that the error file is written to (TORCHELASTIC_ERROR_FILE). Its disk may hang: the writer is
// for a thread of its own, and a wait for it takes kTerminationLogLimit at most.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "common/time.h"
#include "proto/worker_env.h"
#include "rendezvous/messages/messages.h"

namespace ddprun {

inline constexpr const char* kTerminationLog = "/dev/termination-log";
inline constexpr Duration kTerminationLogLimit{500};
inline constexpr std::size_t kMaxTerminationLog = 4096;  // Kubernetes cuts what is longer.

// One sentence, the error that the root cause left, and the end of its last lines: as much as there
// is room for.
std::string TerminationText(const Finish& finish);

// Null: there is nothing to write, or nowhere. May be called after all else is gone.
std::function<void()> TerminationLogWriter(const std::string& text, const GetEnv& get_env,
                                           const std::filesystem::path& file = kTerminationLog);

// It was not written within the limit.
void SayTerminationLogHangs();

}  // namespace ddprun
