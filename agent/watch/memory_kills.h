// Tells whether a worker that died of SIGKILL was killed because memory ran out.
//
// The kernel counts, per cgroup, the processes that it killed for want of memory: a worker that was
// killed while the count of its agent's cgroup rose has met its limit. Says nothing of GPUs, and
// nothing where a worker has a cgroup of its own.
#pragma once

#include <cstdint>

#include "common/exit_status.h"
#include "rendezvous/messages/messages.h"

namespace ddprun {

// In this process's cgroup so far; 0 where the kernel does not tell.
std::uint64_t MemoryKills();

// How much this process's cgroup may have; the largest number where none says.
std::uint64_t MemoryLimit();

// The details that the worker left, with kMemoryRanOut for one that was killed since the count was
// `before`.
FailureDetails WithMemoryKill(FailureDetails details, const ExitStatus& status,
                              std::uint64_t before);

}  // namespace ddprun
