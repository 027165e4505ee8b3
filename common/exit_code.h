// Exit codes of ddprun and of workers that speak the notify protocol.
//
// Anything else a user sees is the root-cause worker's own code, or 128+N for a death by signal N.
#pragma once

namespace ddprun {

inline constexpr int kExitOk = 0;
inline constexpr int kExitUsage = 2;  // Bad command line or configuration.
inline constexpr int kExitUnavailable =
    69;  // Rendezvous unreachable or never formed (EX_UNAVAILABLE).
// Out of memory, or another exception that nothing caught (EX_SOFTWARE).
inline constexpr int kExitInternal = 70;
// Stopped for preemption after a checkpoint: requeue me (EX_TEMPFAIL). From a worker: restart me,
// a peer was lost. Only meant so after the worker said hello on the notify socket.
inline constexpr int kExitRestart = 75;
inline constexpr int kExitDoNotRestart = 76;  // Same condition: restarting cannot help.
inline constexpr int kExitHung = 124;         // Workers hung until the budget was spent.
inline constexpr int kExitSignalBase = 128;
inline constexpr int kExitInterrupted = 130;
inline constexpr int kExitTerminated = 143;

}  // namespace ddprun
