// Says how a training goes: to people by a line, a file of metrics and curves, to the agent by the
// heartbeat.
//
// All ranks add their numbers up, and rank 0 reports them.
#pragma once

#include <chrono>
#include <cstdint>

#include "trainer/loop/saving.h"
#include "trainer/loop/training.h"

namespace ddprun {

class Reporting final : public StepObserver {
 public:
  Reporting(Training& training, Saving& saving) : StepObserver(training), saving_(saving) {}

  Result<void> BeforeFirstStep() override;
  Result<void> AfterStep(const FinishedStep& step) override;
  Result<void> Close(const Result<TrainingEnd>& end) override;

 private:
  Result<void> Report(const FinishedStep& step);
  void Publish(const Score& score, double seconds, const FinishedStep& step);
  // Once. `count` ranks have such a loss; `sum` adds their numbers up.
  void WarnOfLoss(double count, double sum);

  Saving& saving_;
  bool replays_ = false;  // It was logged that steps are replayed.
  bool warned_ = false;   // Of a loss that is no number.
  std::uint64_t report_at_ = 0;
  std::uint64_t reported_step_ = 0;
  std::chrono::steady_clock::time_point reported_at_;
};

}  // namespace ddprun
