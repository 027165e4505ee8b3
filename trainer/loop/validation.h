// --validate-every: evaluates the model between steps, keeps the best result, and stops early.
//
// All ranks evaluate their share; rank 0's judgement counts for all.
#pragma once

#include "trainer/loop/evaluation.h"
#include "trainer/loop/training.h"

namespace ddprun {

class Validation final : public StepObserver {
 public:
  using StepObserver::StepObserver;

  Result<void> AfterStep(const FinishedStep& step) override;

 private:
  void Report(const Evaluation& result);
};

}  // namespace ddprun
