#include "trainer/loop/blocking_tasks.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>
#include <utility>

#include "trainer/disk/disk_wait.h"
#include "trainer/stop_request.h"

namespace ddprun {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kDiskRound{500};
constexpr std::chrono::seconds kTellEvery{5};

Error GivenUp(const BlockingTask& task, std::chrono::seconds lasted) {
  return {ErrorKind::kUnavailable,
          "asked to stop, but " + task.what + " for " + std::to_string(lasted.count()) + " s" +
              (task.on_disk ? ": the file system is not responding" : "") +
              ". Ending without it. The next start continues from the last saved checkpoint, or "
              "from the beginning if there is none"};
}

Result<void> Wait(Training& training, BlockingTask&& task, bool together) {
  if (training.printer) {
    training.printer->EndLine();  // Before `work` has something to say.
  }
  OwnTime time(Clock::now());
  DiskWait wait(time.Look(Clock::now()), task.bytes);
  std::optional<DiskWork> work;
  if (task.work) {
    work.emplace(std::move(task.work));
  }
  const auto round =
      std::min<std::chrono::milliseconds>(kDiskRound, training.config.peer_timeout / 4);
  Clock::time_point told = time.Look(Clock::now());
  std::optional<Result<void>> outcome;
  for (bool asked = false;;) {
    if (work && !outcome) {
      outcome = work->Wait(round);
    }
    const bool busy = work && !outcome;
    const Clock::time_point now = time.Look(Clock::now());
    const DiskWait::Due due = wait.Look(now, asked);
    // Busy, failed, asked to stop, given up: of all ranks.
    std::array<double, 4> sums = {busy ? 1.0 : 0.0, outcome && !*outcome ? 1.0 : 0.0,
                                  StopRequest::Signal() ? 1.0 : 0.0,
                                  busy && due.give_up ? 1.0 : 0.0};
    if (together) {
      std::optional<StopGuard::Round> in_round;
      if (training.guard) {
        in_round.emplace(*training.guard, work ? &*work : nullptr, wait.patience());
      }
      RETURN_IF_ERROR(training.group->Sum(sums));
    }
    if (sums[0] == 0 || sums[1] > 0) {
      return outcome.value_or(Result<void>());
    }
    if (sums[3] > 0) {
      return GivenUp(task, wait.Lasted(now));
    }
    if (busy && due.word) {
      Log(LogLevel::kWarning, task.what + ", " + std::to_string(wait.Lasted(now).count()) +
                                  (task.on_disk ? " s so far: waiting for the disk"
                                                : " s so far: waiting for the CPU") +
                                  (task.waits_too.empty() ? "" : ", or " + task.waits_too) +
                                  (task.on_disk ? " [disk-wait]" : ""));
    }
    if (now - told >= kTellEvery) {
      told = now;
      training.heartbeat.Extend();
    }
    asked = sums[2] > 0;
  }
}

}  // namespace

Result<void> Await(Training& training, BlockingTask task) {
  return Wait(training, std::move(task), /*together=*/false);
}

Result<void> AwaitTogether(Training& training, BlockingTask task) {
  return Wait(training, std::move(task), /*together=*/true);
}

}  // namespace ddprun
