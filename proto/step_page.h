// The step page: a worker tells its steps by writing memory, which costs it no system call.
//
// A memfd of kStepPageBytes, sealed against shrinking and growing, that the worker makes, maps and
// sends on the notify socket (notify.h): STEP_PAGE=1 with the descriptor beside it. An agent that
// reads such pages says so by DDPRUN_STEP_PAGE=1 in the worker's environment; that it reads this
// one, by `reader`.
//
//   worker: entries[count % kStepEntries] first, then count + 1, then it looks at `reader`: where
//           that is not kPageIsRead, it sends the step as a datagram too
//   agent:  takes what is new ten times a second, before each datagram of the worker, and before
//           the worker's end; of more than kStepEntries at once the last ones
//   both:   STEP_PAGE=n in a datagram says that n entries were there when it was sent, so that a
//           PHASE between two steps stays between them
//
// Numbers of 8 bytes, aligned and in this machine's order, each stored at once. The reader trusts
// none of it: its values are read as a worker's word.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ddprun {

inline constexpr std::size_t kStepPageBytes = 4096;
inline constexpr std::uint64_t kStepPageMagic = 0x3165'6761'7070'7473;  // "stppage1"
inline constexpr std::uint64_t kStepEntries = 128;
inline constexpr std::uint64_t kPageIsRead = 1;
inline constexpr std::uint64_t kPageIsReadNoMore = 2;  // The worker has sent another one.

struct StepEntry {
  std::uint64_t step = 0;               // As STEP.
  std::uint64_t nanoseconds = 0;        // CLOCK_MONOTONIC, when it was written.
  std::uint64_t work_microseconds = 0;  // As WORK_USEC; 0: not known.
  bool operator==(const StepEntry&) const = default;
};

// The rest of its bytes is unused.
struct StepPage {
  std::uint64_t magic = kStepPageMagic;
  std::uint64_t count = 0;   // Entries written since its beginning.
  std::uint64_t reader = 0;  // The agent's to write.
  std::uint64_t unused[5] = {};
  StepEntry entries[kStepEntries];
};
static_assert(sizeof(StepPage) <= kStepPageBytes && offsetof(StepPage, entries) == 64);

}  // namespace ddprun
