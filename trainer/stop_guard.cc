#include "trainer/stop_guard.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>

#include "common/exit_code.h"
#include "common/log.h"
#include "common/time.h"
#include "trainer/stop_request.h"

namespace ddprun {
namespace {

constexpr std::chrono::milliseconds kLookInterval{200};

RankActivity ActivityIn(const TrainPhase* phase) {
  if (phase == &kStepPhase) {
    return RankActivity::kStepping;
  }
  if (phase == &kDataPhase) {
    return RankActivity::kReading;
  }
  return phase == &kEvaluatedPhase ? RankActivity::kWaiting : RankActivity::kBusy;
}

}  // namespace

bool OverdueStop::Look(Time now, std::uint64_t step, RankActivity activity, bool asked_to_stop,
                       PeersRound round) {
  const bool in_step = activity == RankActivity::kStepping || activity == RankActivity::kReading;
  if (step != step_) {
    const std::chrono::nanoseconds lasted = now - step_since_;
    longest_ = measured_ ? std::max(longest_, lasted) : lasted;
    measured_ = true;
  }
  if (step != step_ || !in_step) {
    step_since_ = now;
  }
  if (activity == RankActivity::kBusy) {
    busy_since_ = activity_ == RankActivity::kBusy ? busy_since_ : now;
    busy_ = now - busy_since_;
  }
  if (step != step_ || round.number != round_ ||
      (activity != activity_ && activity_ != RankActivity::kBusy) ||
      activity == RankActivity::kBusy || asked_to_stop != asked_) {
    since_ = now;
  }
  step_ = step;
  round_ = round.number;
  activity_ = activity;
  asked_ = asked_to_stop;
  const std::chrono::nanoseconds usual =
      activity == RankActivity::kWaiting ? std::max(longest_, busy_) : longest_;
  std::chrono::seconds disk = peers_disk_;
  if (activity == RankActivity::kReading) {
    disk = DiskWait::kStopPatience;
  } else if (activity == RankActivity::kInRound) {
    disk = {};  // No rank reads any more.
  }
  return asked_ && now - since_ > kPatience + 2 * usual + round.more + disk;
}

StopGuard::StopGuard(const Heartbeat& heartbeat, std::function<bool()> asked,
                     std::chrono::seconds peers_disk)
    : heartbeat_(heartbeat), asked_(std::move(asked)), peers_disk_(peers_disk) {}

void StopGuard::Agreed() {
  const std::lock_guard lock(mutex_);
  agreed_ = true;
}

StopGuard::Round::Round(StopGuard& guard, const DiskWork* work, std::chrono::seconds patience)
    : guard_(guard) {
  const std::lock_guard lock(guard_.mutex_);
  guard_.in_round_ = true;
  ++guard_.round_.number;
  guard_.round_.more = work ? std::chrono::seconds(0) : patience;
  guard_.work_ = work;
  guard_.patience_ = patience;
}

StopGuard::Round::~Round() {
  const std::lock_guard lock(guard_.mutex_);
  guard_.in_round_ = false;
  guard_.round_.more = {};
  guard_.work_ = nullptr;
}

bool StopGuard::IsOverdue(OverdueStop& stop, OverdueStop::Time now, RankActivity& activity) {
  activity = ActivityIn(heartbeat_.phase());
  if (round_seen_ != round_.number) {
    round_seen_ = round_.number;
    work_until_ = now + patience_;
  }
  if (in_round_) {
    activity = work_ && !work_->IsDone() && now < work_until_ ? RankActivity::kBusy
                                                              : RankActivity::kInRound;
  }
  const bool asked = agreed_ || StopRequest::Signal() || (asked_ && asked_());
  return stop.Look(now, heartbeat_.step(), activity, asked, round_);
}

void StopGuard::Run(const std::stop_token& end) {
  using Clock = std::chrono::steady_clock;
  OwnTime time(Clock::now());
  OverdueStop stop(time.Look(Clock::now()), peers_disk_);
  std::unique_lock lock(mutex_);
  while (!ends_.wait_for(lock, end, kLookInterval, [&end] { return end.stop_requested(); })) {
    RankActivity activity;
    if (!IsOverdue(stop, time.Look(Clock::now()), activity)) {
      continue;
    }
    const std::string step = std::to_string(heartbeat_.step());
    if (activity == RankActivity::kInRound) {
      Log(LogLevel::kError, "all ranks stop after step " + step +
                                ", but a peer hangs. Ending without it; saved checkpoints remain");
    } else if (activity == RankActivity::kReading) {
      Log(LogLevel::kError, "asked to stop, but the samples of step " +
                                std::to_string(heartbeat_.step() + 1) +
                                " have not been read: their file system is not responding. Ending "
                                "without saving; the last checkpoint remains");
    } else {
      Log(LogLevel::kError,
          "asked to stop, but " +
              (activity == RankActivity::kWaiting
                   ? "the validation after step " + step
                   : "step " + std::to_string(heartbeat_.step() + 1)) +
              " does not end: a peer hangs. Ending without saving; the last checkpoint remains");
    }
    FlushLog(std::chrono::seconds(1));
    _exit(kExitRestart);
  }
}

}  // namespace ddprun
