// How an agent has workers forked from a preload process, which has loaded what workers need.
//
// A SOCK_SEQPACKET socket joins the two; DDPRUN_PRELOAD_SOCKET in the preload process's environment
// is the number of its end. A program whose file carries the note below becomes a preload process
// by itself, others need a hook that does.
//
//   preload -> agent    PreloadReply{kReady | kRefuses}             once, when all is loaded
//   agent -> preload    PreloadRequest and the descriptors          one at a time
//   preload -> agent    PreloadReply{kForked | kRefuses, sequence}
//   worker -> agent     PreloadReply{kForked, sequence, errno, step} on a line of its own, with the
//                       kernel's word for the sender (SCM_CREDENTIALS); set up but for what follows
//   agent -> worker     one byte: go; the agent has registered the process. End of file: it ends
//   agent -> preload    PreloadRequest with keep_ms, and two descriptors: it outlives this run
//                       (proto/kept_preload_process.h)
//
// Blocks have fixed numbers, which whatever the preload process opens would take. So it is started
// with a file in each of these places; in a worker they give way to its blocks, or are closed.
//
// Both ends are of one build: another version is refused, and the workers start without preloading.
#pragma once

#include <cstdint>

#include "proto/memory_block.h"

namespace ddprun {

inline constexpr const char* kPreloadVariable = "DDPRUN_PRELOAD_SOCKET";
inline constexpr std::uint32_t kPreloadVersion = 5;

// ELF note of a program that is a preload process by itself: this name and type, and the version.
inline constexpr char kPreloadNoteName[] = "ddprun";
inline constexpr std::uint32_t kPreloadNoteType = 0x7470;

enum class PreloadWord : std::uint32_t { kReady = 1, kForked = 2, kRefuses = 3 };

struct PreloadReply {
  std::uint32_t version = kPreloadVersion;
  PreloadWord word = PreloadWord::kReady;
  std::uint32_t sequence = 0;  // Of the request.
  std::int32_t pid = 0;        // Of the worker, which is the agent's child by then.
  // errno of the step that failed. Of kRefuses: not 0 where another preload process would refuse,
  // too.
  std::int32_t error = 0;
  char text[1004] = {};  // That step; why it refuses; of kReady what is left out. Ends with 0.
};

// With it come descriptors: 0, 1 and 2 of the worker, its line, a memory file (WorkerImage, then
// CPUs, environment and directory), and its memory blocks (memory_block.h).
inline constexpr int kPreloadDescriptors = 5;
struct PreloadRequest {
  std::uint32_t version = kPreloadVersion;
  std::uint32_t sequence = 0;
  std::uint32_t blocks = 0;  // At most kMostBlocks.
  // Not 0: no worker is wanted (kept_preload_process.h).
  std::uint32_t keep_ms = 0;
  std::int32_t agent = 0;  // The agent's pid.
  std::int32_t guard = 0;  // The pid of the agent's guard.
};

struct WorkerImage {
  std::int32_t agent = 0;       // The parent that it must have.
  std::uint32_t cpu_bytes = 0;  // A mask as sched_setaffinity takes it; 0: the preload process's.
  // NAME=value, each ending with 0: all of it. LISTEN_PID= is the last one, where it is there, with
  // 0s in place of the number, which the worker fills in.
  std::uint32_t environment_bytes = 0;
  std::uint32_t environment_count = 0;
  std::uint32_t directory_bytes = 0;  // With its 0; 0: the preload process's.
  // The program's own arguments, each ending with 0; a preload process of C++ ignores them.
  std::uint32_t argument_bytes = 0;
};

}  // namespace ddprun
