// How an agent tells a worker that it should end at once, rather than save its work and end.
//
// Every stop begins with TERM (or the signal that the user sent) to the worker's process group. A
// planned one leaves time: a worker that can save does so at a step all ranks agree on. Where a
// peer failed or was lost no rank can finish a step any more, so the worker process itself gets
// TERM queued with this value first (sigqueue(3)); a handler installed with SA_SIGINFO sees it, any
// other program just sees TERM.
#pragma once

#include <signal.h>

namespace ddprun {

inline constexpr int kEndAtOnce = 0x646470;  // "ddp"; si_code is SI_QUEUE.

inline bool SaysEndAtOnce(const siginfo_t& info) {
  return info.si_code == SI_QUEUE && info.si_value.sival_int == kEndAtOnce;
}

}  // namespace ddprun
