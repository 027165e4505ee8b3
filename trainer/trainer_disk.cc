// What a rank does while its disk works, or rank 0's: it says so, and stays a peer.
#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "common/log.h"
#include "trainer/disk/disk_wait.h"
#include "trainer/stop_request.h"
#include "trainer/trainer.h"

namespace ddprun {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kTurn{500};
constexpr std::chrono::seconds kTellEvery{5};

}  // namespace

Result<void> Trainer::WaitForDisk(DiskTask task) {
  return Wait(std::move(task), /*together=*/false);
}

Result<void> Trainer::WaitForDiskTogether(DiskTask task) {
  return Wait(std::move(task), /*together=*/true);
}

Result<void> Trainer::Wait(DiskTask&& task, bool together) {
  if (printer_) {
    printer_->EndLine();  // Before `work` has something to say.
  }
  OwnTime time(Clock::now());
  DiskWait wait(time.Look(Clock::now()), task.bytes);
  std::optional<DiskWork> work;
  if (task.work) {
    work.emplace(std::move(task.work));
  }
  const auto turn = std::min<std::chrono::milliseconds>(
      kTurn, std::chrono::seconds(config_.collective_timeout) / 4);
  Clock::time_point told = time.Look(Clock::now());
  std::optional<Result<void>> outcome;
  for (bool asked = false;;) {
    if (work && !outcome) {
      outcome = work->Wait(turn);
    }
    const bool busy = work && !outcome;
    const Clock::time_point now = time.Look(Clock::now());
    const DiskWait::Due due = wait.Look(now, asked);
    // Busy, failed, asked to stop, given up: of all ranks.
    std::array<double, 4> sums = {busy ? 1.0 : 0.0, outcome && !*outcome ? 1.0 : 0.0,
                                  StopRequest::Signal() ? 1.0 : 0.0,
                                  busy && due.give_up ? 1.0 : 0.0};
    if (together) {
      std::optional<StopGuard::Turn> in_turn;
      if (guard_) {
        in_turn.emplace(*guard_, work ? &*work : nullptr, wait.patience());
      }
      RETURN_IF_ERROR(group_->Sum(sums));
    }
    if (sums[0] == 0 || sums[1] > 0) {
      return outcome.value_or(Result<void>());
    }
    if (sums[3] > 0) {
      return Error{ErrorKind::kUnavailable,
                   "asked to stop, but " + task.what + " for " +
                       std::to_string(wait.Lasted(now).count()) + " s" +
                       (task.on_disk ? ": the disk does not answer" : "") +
                       ". Ending without it. Started again, training continues from the "
                       "last saved checkpoint, or from the beginning if there is none"};
    }
    if (busy && due.word) {
      Log(LogLevel::kWarning, task.what + ", " + std::to_string(wait.Lasted(now).count()) +
                                  (task.on_disk ? " s so far: waiting for the disk"
                                                : " s so far: waiting for the CPU"));
    }
    if (now - told >= kTellEvery) {
      told = now;
      heartbeat_.Extend();
    }
    asked = sums[2] > 0;
  }
}

}  // namespace ddprun
