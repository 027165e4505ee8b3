// Ends a process that was asked to stop while it waits for a peer that hangs.
//
// All ranks stop at a step on which they agree, and a peer that neither computes nor dies lets
// nobody agree: without this the others would wait for it until --collective-timeout, and their
// launcher for them. A stop is overdue when no step has ended for kPatience and twice the longest
// step so far; and a validation, when this rank's share is done and the others' are not after so
// long and twice its own. Then the process ends with "start me again" and saves nothing, as it does
// when a peer is gone; that closes its connections, so that its peers end too. What this rank does
// itself takes its time: its share of a validation, a checkpoint.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>

#include "trainer/heartbeat.h"

namespace ddprun {

enum class RankIs {
  kStepping,
  kWaiting,  // For the others' shares of a validation.
  kBusy,     // With something of its own.
};

// Pure: told the time and what is seen at it.
class OverdueStop {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::seconds kPatience{5};

  explicit OverdueStop(Time now) : since_(now) {}

  bool Look(Time now, std::uint64_t step, RankIs is, bool asked_to_stop);

 private:
  std::uint64_t step_ = 0;
  RankIs is_ = RankIs::kBusy;
  Time since_;  // This began, or the stop was asked for, whichever came later.
  Time step_since_ = since_;
  Time busy_since_ = since_;
  std::chrono::nanoseconds longest_{0};  // Step.
  std::chrono::nanoseconds busy_{0};     // The last time.
  bool asked_ = false;
};

class StopGuard {
 public:
  // Outlives this.
  explicit StopGuard(const Heartbeat& heartbeat);
  ~StopGuard();
  StopGuard(const StopGuard&) = delete;
  StopGuard& operator=(const StopGuard&) = delete;

 private:
  void Run();

  const Heartbeat& heartbeat_;
  std::mutex mutex_;
  std::condition_variable ends_;
  bool end_ = false;
  std::thread thread_;  // Last: it uses all of the above.
};

}  // namespace ddprun
