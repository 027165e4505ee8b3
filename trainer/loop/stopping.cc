#include "trainer/loop/stopping.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "trainer/disk/disk_wait.h"
#include "trainer/stop_request.h"

namespace ddprun {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kAgreeInterval = 0.1;     // Seconds; agreeing costs a small all-reduce.
constexpr double kMostStepsToAgree = 1e6;  // Between two agreements.

}  // namespace

Result<void> Stopping::BeforeFirstStep() {
  agreed_step_ = training_.state.step;
  agree_at_ = agreed_step_ + 1;
  agreed_at_ = Clock::now();
  StopRequest::Catch(training_.env.run_id.empty());
  if (training_.env.world_size > 1) {
    training_.guard.emplace(
        training_.heartbeat, [this] { return training_.run_files && training_.run_files->stop(); },
        training_.samples_on_disk ? DiskWait::kStopPatience : std::chrono::seconds(0));
  }
  return {};
}

// Rank 0 puts into the same sum when to agree next: if each rank looked at its own clock, they
// would disagree.
Result<void> Stopping::AfterStep(const FinishedStep& /*step*/) {
  const std::uint64_t step = training_.state.step;
  if (!training_.validated && step < agree_at_) {  // The next validation may come before agree_at_.
    return {};
  }
  double next = 0;
  if (training_.IsRankZero()) {
    const double seconds =
        std::max(std::chrono::duration<double>(Clock::now() - agreed_at_).count(), 1e-6);
    const auto steps = static_cast<double>(step - agreed_step_);
    next = std::clamp(std::floor(steps / seconds * kAgreeInterval), 1.0, kMostStepsToAgree);
  }
  std::optional<RunFiles>& files = training_.run_files;
  if ((files && files->TakeSave()) || (training_.IsRankZero() && StopRequest::TakeSave())) {
    saving_.AskToSave();
  }
  // Whether one asks to stop, when to ask again, how many may not leave the state in memory now.
  const bool stop = StopRequest::Signal() || (files && files->stop());
  std::array<double, 3> sums = {stop ? 1.0 : 0.0, next, saving_.MayRemember() ? 0.0 : 1.0};
  RETURN_IF_ERROR(training_.group->Sum(sums));
  training_.stop = sums[0] > 0;
  if (sums[2] == 0 && !training_.stop && !training_.Done()) {
    saving_.Remember();
  }
  agreed_step_ = step;
  agreed_at_ = Clock::now();
  agree_at_ = step + static_cast<std::uint64_t>(sums[1]);
  return {};
}

}  // namespace ddprun
