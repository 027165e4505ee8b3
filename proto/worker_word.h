// A worker's word on how far it is: on its notify socket (proto/notify.h), in its output, or from
// ddprun's watch of it.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace ddprun {

struct WorkerWord {
  std::uint32_t local_rank = 0;  // Of the source: no worker says it.
  bool ready = false;
  std::optional<std::uint64_t> step;
  std::optional<std::uint64_t> resume;  // Its state is there, and it continues from this step.
  std::optional<std::string> phase;     // At most 64 printable characters.
  // The next progress may come this much later than now.
  std::optional<std::chrono::microseconds> extend;
  std::optional<double> loss;           // For people; a number, as all of these:
  std::optional<double> samples_per_s;  // Not negative.
  std::optional<std::uint64_t> checkpoint;
  std::optional<std::uint64_t> steps;             // That there are in all; not 0.
  std::optional<std::chrono::microseconds> work;  // The least of a step since the last STEP.
  // The numbers that sources beside the worker itself have of its progress (ProgressSource).
  std::optional<std::uint64_t> printed;       // Only grows; which number it is does not matter.
  std::optional<std::uint64_t> printed_step;  // Beside it: the run's own step.
  std::optional<std::uint64_t> collectives;
  std::uint64_t world_collectives = 0;
  bool in_collective = false;
  // None begun yet, and for so long nothing of it has moved, and it has hardly used a CPU.
  std::optional<std::chrono::microseconds> still;
  std::optional<std::chrono::microseconds> idle;
};

}  // namespace ddprun
