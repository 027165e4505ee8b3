// Lets all ranks stop after the same step: a request to any rank is a request to all of them.
//
// Ranks agree by a small sum of numbers, about every 0.1 s, and after each validation. In the same
// sum they agree whether the state of this step is left in memory.
#pragma once

#include <chrono>
#include <cstdint>

#include "trainer/loop/saving.h"
#include "trainer/loop/training.h"

namespace ddprun {

class Stopping final : public StepObserver {
 public:
  // Called after the validation and the save of a step, and last before the first step: from then
  // on signals are requests to stop.
  Stopping(Training& training, Saving& saving) : StepObserver(training), saving_(saving) {}

  Result<void> BeforeFirstStep() override;
  Result<void> AfterStep(const FinishedStep& step) override;

 private:
  Saving& saving_;
  std::uint64_t agree_at_ = 0;  // The step at which all ranks next agree.
  std::uint64_t agreed_step_ = 0;
  std::chrono::steady_clock::time_point agreed_at_;
};

}  // namespace ddprun
