// The notify socket: a worker's datagrams to its agent, sd_notify-style lines of NAME=value.
//
//   READY=1            hello: the worker speaks this protocol, so its exit codes 75 and 76 mean
//                      "restart me" and "do not restart"
//   STEP=1200          progress, a counter that only grows within a generation
//   LOSS=0.41  SAMPLES_PER_S=51200  CHECKPOINT=1000
//                      how well it goes, from the rank that knows, for people; CHECKPOINT is the
//                      step of the newest one
//   STEPS=2000         so many steps there are in all: the number of the last one; for people
//   WORK_USEC=41000    beside a STEP: so long the quickest of the steps since the last STEP took
//                      here by itself, before it waited for other ranks; for people
//   RESUME=1200        its state is there, and it continues from that step; once, before the first
//   PHASE=checkpoint   what it is doing, one word
//   EXTEND_TIMEOUT_USEC=60000000
//                      as systemd's: the next progress may come that much later than now, however
//                      short --hang-timeout is; the next STEP or other PHASE ends it
//   COLLECTIVES=412  WORLD_COLLECTIVES=400  IN_COLLECTIVE=1
//                      so many collectives its process groups have begun, so many of these that of
//                      all ranks, and whether it waits in one; 0: no longer known; sent by ddprun's
//                      watch of Python programs that send no STEP, and ignored once they do
//   STILL_USEC=7000000
//                      beside COLLECTIVES=0: it has begun none yet, and for so long nothing of it
//                      has moved; IN_COLLECTIVE=1: since it waits for the others to join
//   IDLE_USEC=7000000  beside COLLECTIVES=0: for so long it and its children have used next to no
//   CPU
//                      time
//   SAVE_SIGNAL=23     this signal (1 to 64; not KILL, not STOP) makes it save and
//                      continue: ddprun save sends it only to workers that have said so
//   FDSTORE=1  FDNAME=model
//                      as systemd's, with one memfd beside it (SCM_RIGHTS): keep it for the next
//                      worker of this local rank (memory_block.h); "stored" without a name
//   FDSTOREREMOVE=1  FDNAME=model
//                      no longer
//
// Unix datagram socket named by DDPRUN_NOTIFY_SOCKET; at most kMaxNotifyBytes each; unknown names
// are ignored, malformed lines are dropped. A worker that cannot send loses nothing but its say.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/files.h"
#include "proto/worker_word.h"

namespace ddprun {

inline constexpr std::size_t kMaxNotifyBytes = 4096;

// Beside it, where ddprun watches a process of the worker, a stream socket whose
// name has that one's number at its end ("3.4711"). It answers "stacks" with those of all Python
// threads, as py-spy prints them, and "collectives" with what torch recorded of the last ones
// (JSON). "" where there is no notify socket.
std::string AskSocketBeside(const std::string& notify_socket, int pid);

// `printed` and `printed_step` are never from a datagram.
struct Notification : WorkerWord {
  std::optional<int> save_signal;
  bool store = false;
  bool remove = false;
  std::optional<std::string> block;  // Empty: a name that no block can have.
};

// 1 to 255 ASCII characters, none of them a control character or ':'.
bool IsBlockName(std::string_view name);

// A time as a worker says it: twelve days at most.
std::chrono::microseconds BoundedMicroseconds(std::uint64_t microseconds);

// Never fails: lines that it does not understand are left out.
Notification ParseNotification(std::string_view datagram);

// The worker's side. Opened once; every Send is non-blocking and may be lost.
class Notifier {
 public:
  // Empty path: Send does nothing.
  explicit Notifier(const std::string& socket_path);

  void Send(std::string_view lines) const;
  // With a descriptor beside them. False: it was not taken.
  bool SendWith(std::string_view lines, int descriptor) const;

 private:
  UniqueFd fd_;
};

}  // namespace ddprun
