// The only place where what nodes and server tell each other becomes words. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "rendezvous/messages/messages.h"

namespace ddprun {

// "1 node", "3 nodes".
std::string CountOf(std::uint32_t count, const std::string& one);

// The name that a run without --rdzv-id has, as under torchrun.
inline constexpr const char* kUnnamedRun = "none";

// "run 'demo'"; "run": it has no name.
std::string NameOf(const RunId& run_id);

// The last line of what a program wrote to stderr: of a traceback, its exception. Lines in brackets
// are torch's own warnings, which follow a traceback. Without the rank that torch writes before.
std::string_view LastLineOf(std::string_view text);

// "ValueError: bad", cut where it is long: from its record, else the last line of its stderr.
// Empty: that is no exception of Python's.
std::string ExceptionOf(const WorkerFailure& failure);

// Whether an error says, in the words of Gloo, NCCL or c10d, that a peer's connection was lost.
bool SaysPeerWasLost(std::string_view error);

// "rank 1 (local rank 1, pid 77, host n0) ended with exit code 1: ValueError: bad"
std::string Describe(const WorkerFailure& failure);

// "waiting for 1 more node (3 of 4 are here; missing n03); giving up in 9 min 58 s"
std::string Describe(const WaitReason& reason);

std::string Describe(StopCause cause);
// The same as one word, for programs that count: "node_lost".
std::string WordOf(StopCause cause);

// "--nnodes=1:4 --max-restarts=3 --fence-after=10.0 s": the flags that all nodes must set alike.
std::string Describe(const RunSpec& spec);

}  // namespace ddprun
