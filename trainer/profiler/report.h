// The parts of a profile: the table of operators, and a trace that Perfetto opens.
//
// Pure. Events of one thread nest; asynchronous ones (an all-reduce begins in one thread and ends
// in another) overlap, and get rows of their own in the trace.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ddprun {

enum class EventKind {
  kOperator,
  kRange,  // Named by the trainer: data, forward, backward, average, optimizer, checkpoint.
  kAsync,
};

struct ProfiledEvent {
  std::string name;
  EventKind kind = EventKind::kOperator;
  std::uint64_t thread = 0;
  std::int64_t begin = 0;  // Nanoseconds, of one clock.
  std::int64_t end = 0;
  std::int64_t bytes = 0;  // Allocated minus freed meanwhile, in the event's thread.
};

// Sorted by self time, the longest first; at most `rows` of them. Asynchronous events have no self
// time of a thread; theirs is their total.
std::string OperatorTable(std::vector<ProfiledEvent> events, std::size_t rows);

// Chrome's JSON: {"traceEvents": [...]}, microseconds since the first event, pid = rank.
std::string ChromeTrace(std::vector<ProfiledEvent> events, std::uint32_t rank);

}  // namespace ddprun
