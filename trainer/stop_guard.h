// Ends a process that was asked to stop while it waits for a peer that hangs.
//
// All ranks stop at a step on which they agree, and with a peer that neither computes nor dies they
// cannot agree: without this the others would wait for it until --collective-timeout, and their
// launcher for them. A stop is overdue when no step has ended for kPatience and twice the longest
// step so far (where none has ended, kFirstStep); and a validation, when this rank's share is done
// and the others' are not after so long and twice its own. Then the process ends with "start me
// again" and saves nothing, as it does when a peer is gone; that closes its connections, so that
// its peers end too. This rank's own work takes its time: its share of a validation, a checkpoint.
// Where samples lie on disks, each rank's has its patience (disk_wait.h), and its peers have it
// too.
//
// Once they have agreed one of them saves, and all speak to each other in rounds meanwhile. A round
// is as overdue as a step: of the rank that saves once it has saved, or its disk had its time; of
// the others when that time is over too, so that no rank leaves before the one that saves.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <stop_token>
#include <thread>

#include "trainer/disk/disk_wait.h"
#include "trainer/heartbeat.h"

namespace ddprun {

enum class RankActivity {
  kStepping,
  kReading,  // Its samples: the disk has its patience (disk_wait.h).
  kWaiting,  // For the others' shares of a validation.
  kBusy,     // With something of its own.
  kInRound,  // With the others, while one saves.
};

struct PeersRound {
  std::uint64_t number = 0;
  std::chrono::nanoseconds more{0};  // The time that it may take beyond that of a step.
};

// Pure: the caller passes the time and what is seen at it.
class OverdueStop {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::seconds kPatience{5};
  static constexpr std::chrono::seconds kFirstStep{10};  // Libraries are loaded, kernels chosen.

  // `peers_disk`: the time that the others may need for their samples.
  explicit OverdueStop(Time now, std::chrono::seconds peers_disk = {})
      : peers_disk_(peers_disk), since_(now) {}

  bool Look(Time now, std::uint64_t step, RankActivity activity, bool asked_to_stop,
            PeersRound round = {});

 private:
  std::chrono::seconds peers_disk_;
  std::uint64_t step_ = 0;
  std::uint64_t round_ = 0;
  RankActivity activity_ = RankActivity::kBusy;
  Time since_;  // This began, this round too, or the stop was asked for, whichever came last.
  Time step_since_ = since_;
  Time busy_since_ = since_;
  std::chrono::nanoseconds longest_ = kFirstStep;  // Step.
  bool measured_ = false;
  std::chrono::nanoseconds busy_{0};  // The last time.
  bool asked_ = false;
};

class StopGuard {
 public:
  // Outlives this. `asked`: whether a stop is asked for otherwise than by a signal; by any thread.
  explicit StopGuard(const Heartbeat& heartbeat, std::function<bool()> asked = {},
                     std::chrono::seconds peers_disk = {});
  StopGuard(const StopGuard&) = delete;
  StopGuard& operator=(const StopGuard&) = delete;

  // All ranks stop at the step just taken, even if only one was asked to.
  void Agreed();

  // As long as it lives this rank waits for the others' part in a round.
  class Round {
   public:
    // `work`: this rank's; none: others have it. A disk is given `patience` for it.
    Round(StopGuard& guard, const DiskWork* work, std::chrono::seconds patience);
    ~Round();
    Round(const Round&) = delete;
    Round& operator=(const Round&) = delete;

   private:
    StopGuard& guard_;
  };

 private:
  void Run(const std::stop_token& end);
  bool IsOverdue(OverdueStop& stop, OverdueStop::Time now, RankActivity& activity);

  const Heartbeat& heartbeat_;
  const std::function<bool()> asked_;
  const std::chrono::seconds peers_disk_;
  std::mutex mutex_;  // Of what follows.
  std::condition_variable_any ends_;
  bool agreed_ = false;
  bool in_round_ = false;
  PeersRound round_;
  const DiskWork* work_ = nullptr;
  std::chrono::seconds patience_{0};
  std::uint64_t round_seen_ = 0;
  OverdueStop::Time work_until_;
  std::jthread thread_{[this](const std::stop_token& end) { Run(end); }};  // Last: it uses all.
};

}  // namespace ddprun
