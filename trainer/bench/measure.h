// How long messages and collectives take, by size.
//
// Every rank takes part in every round; a round starts at a barrier and its time is that of the
// slowest rank. Every result is compared, outside the time. Sums of 32-bit floats.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/result.h"
#include "trainer/group/process_group.h"

namespace ddprun {

struct Measured {
  std::string operation;  // "all-reduce"
  std::string made_by;    // "gloo", "send/recv naive", ...
  std::int64_t bytes = 0;
  std::vector<double> microseconds;  // One per round, ascending.
  bool right = false;

  double least() const { return microseconds.front(); }
  double median() const { return microseconds[microseconds.size() / 2]; }
  double most() const { return microseconds.back(); }
  // Of the message, at the median: what one rank has to give, however often it travels.
  double megabytes_per_second() const { return static_cast<double>(bytes) / median(); }
};

// Half a round trip between the first and the last rank; then, sixteen messages under way at once,
// what each of them takes.
Result<std::vector<Measured>> MeasureSends(ProcessGroup& group, const std::string& library,
                                           std::int64_t bytes, std::int64_t rounds);

// Reduce and all-reduce: the library's, and with Gloo ours from send/recv and isend/irecv, naive
// and ring. Of a group that shares memory, which sends no messages, all-reduce alone.
Result<std::vector<Measured>> MeasureReductions(ProcessGroup& group, const std::string& library,
                                                std::int64_t bytes, std::int64_t rounds);

}  // namespace ddprun
