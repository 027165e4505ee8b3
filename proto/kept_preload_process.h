// A preload process that outlives its run and serves the next one (--keep-warm).
//
// Workers must be children of their agent, and the preload process too. A process cannot change its
// parent, so the next launch begins *in* the kept process: it starts a guard, that guard's agent,
// and the agent's preload process, a fork of its own. The `ddprun` that the user has started passes
// its streams, arguments and environment, then signals on, and returns the guard's exit code.
//
//   the user's shell -- ddprun                 init -- guard -- agent -+- preload process
//                                                                      +- workers
//
// A SOCK_SEQPACKET connection joins the two sides; `ddprun` is its client:
//
//   ddprun -> kept    KeptRequest::kLaunch with kLaunchDescriptors | kState | kEnd
//   kept -> ddprun    KeptReply; of kState with the plan's file. After kLaunch the guard continues:
//   guard -> ddprun   what it has inherited (a text); after that it waits
//   ddprun -> guard   one byte 'g': go, it is what ddprun itself was started with. End of file: the
//                     guard ends, and nothing has happened. Then the number of each signal
//   guard -> ddprun   one byte, the exit code, as its last act
//
// The kept process serves one launch and ends. So at the end of each run its preload process is
// kept anew. It ends without one after `idle_ms`, where another user asks, or when its socket's
// name is gone (a logout removes the directory).
#pragma once

#include <sys/types.h>

#include <cstdint>

namespace ddprun {

inline constexpr int kKeepDescriptors = 2;  // Of PreloadRequest: listening socket, plan.

enum class KeptRequest : std::uint32_t { kLaunch = 1, kState = 2, kEnd = 3 };

struct KeptReply {
  std::int32_t pid = 0;
  std::uint32_t left_ms = 0;
  char remark[1004] = {};  // The modules that are not loaded ahead, and why. Ends with 0.
};

// With kLaunch: 0, 1, 2 and a memory file. It has the path of ddprun's executable, its arguments
// and its environment, each word ending with 0, and an empty word after each of the three.
inline constexpr int kLaunchDescriptors = 4;
inline constexpr std::uint32_t kMostLaunchBytes = 16 << 20;

// "guard LINK CONNECTION AGENT" or "agent LINK PRELOAD SOCKET PLAN": descriptors, and the pids of
// the agent and of the preload process.
inline constexpr const char* kKeptVariable = "DDPRUN_KEPT";

struct KeepOrder {
  pid_t agent_pid = 0;
  pid_t guard_pid = 0;
  int listener = -1;
  int plan = -1;
  std::uint32_t idle_ms = 0;
};

// The order that ddprun_preload_wait has received (preload_process.cc).
KeepOrder TakeKeepOrder();

}  // namespace ddprun
