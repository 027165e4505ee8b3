// Tells the agent how far this worker is: STEP and PHASE on the notify socket; and how well it
// goes.
//
// A thread of its own sends, at most ten times a second and only changes, so that a step costs
// three stores however short it is, and the last step before a hang is always sent: all ranks of a
// world that hangs are then compared at the step they really stand at. The thread knows nothing but
// the two values; it never makes a hung worker look alive.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>

#include "proto/notify.h"

namespace ddprun {

// The phase that a rank is in. Every rank goes through the same ones in the same order, so that the
// odd one of a hung world is the rank to look at.
struct TrainPhase {
  const char* name;
  std::uint64_t may_last_seconds = 0;  // However short --hang-timeout is; 0: that one decides.
};
inline constexpr TrainPhase kLoadPhase{"load", 600};
inline constexpr TrainPhase kJoinPhase{"join", 600};  // The collective's own time-out ends it.
inline constexpr TrainPhase kRestorePhase{"restore", 600};
inline constexpr TrainPhase kDataPhase{"data"};
inline constexpr TrainPhase kStepPhase{"step"};
inline constexpr TrainPhase kEvaluatePhase{"evaluate", 600};
inline constexpr TrainPhase kEvaluatedPhase{"evaluated", 600};  // Waits for the others' shares.
inline constexpr TrainPhase kCheckpointPhase{"checkpoint", 600};
inline constexpr TrainPhase kProfilePhase{"profile", 600};  // Makes a trace of what was recorded.

struct TrainReport {
  double loss = 0;
  double samples_per_second = 0;
  std::optional<std::uint64_t> last_checkpoint;  // Step.
  std::uint64_t total_steps = 0;                 // 0: not known.
};

class Heartbeat {
 public:
  // Outlives this.
  explicit Heartbeat(const Notifier& notifier) : notifier_(notifier) {}
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;

  // `work`: the time that it took this rank before it waited for others; nullopt: not known.
  void Step(std::uint64_t step, std::optional<std::chrono::microseconds> work = {}) {
    if (work && work->count() < least_work_.load(std::memory_order_relaxed)) {
      least_work_.store(work->count(), std::memory_order_relaxed);
    }
    step_.store(step, std::memory_order_relaxed);
    if (first_) [[unlikely]] {
      TellFirst(step);
    }
  }
  // The step that training continues from, sent before this returns: that a world came so far is
  // progress (--crash-loop-limit), however soon it ends.
  void Resume(std::uint64_t step);
  // Rank 0's report; sent as it is.
  void Report(const TrainReport& report);
  // This rank waits for something that is not its own doing, and is alive: the phase may last as
  // long again from now on, and a minute at least.
  void Extend();
  // One of the constants above: only the address is kept.
  void Phase(const TrainPhase& phase) { phase_.store(&phase, std::memory_order_relaxed); }

  std::uint64_t step() const { return step_.load(std::memory_order_relaxed); }
  const TrainPhase* phase() const { return phase_.load(std::memory_order_relaxed); }

 private:
  void Run(const std::stop_token& end);
  void TellFirst(std::uint64_t step);

  const Notifier& notifier_;
  static constexpr std::int64_t kNoWork = INT64_MAX;

  // "STEP=7\nWORK_USEC=41000\n"
  std::string StepLines(std::uint64_t step);

  std::atomic<std::uint64_t> step_{0};
  std::atomic<std::int64_t> least_work_{kNoWork};  // Microseconds, of the steps since the last one
                                                   // sent.
  std::atomic<const TrainPhase*> phase_{nullptr};
  std::mutex mutex_;
  std::uint64_t told_step_ = 0;
  bool first_ = false;  // The next step is the first after Resume, and sent at once.
  std::condition_variable_any ends_;
  std::jthread thread_{[this](const std::stop_token& end) { Run(end); }};  // Last: it uses all.
};

}  // namespace ddprun
