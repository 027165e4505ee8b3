// How well the model does on given samples, over all ranks.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>

#include "common/result.h"
#include "trainer/data/dataset.h"
#include "trainer/loop/training.h"

namespace ddprun {

// Means of a sample: "loss"; "accuracy" if the samples have labels; Score::others.
using Evaluation = std::map<std::string, double>;

// Adds the ranks' scores up, and `values` with them.
Result<Score> SumOverRanks(ProcessGroup& group, const Score& own, std::span<double> values = {});

// All ranks call it, and each evaluates its share. `meanwhile` is called between batches, and on
// rank 0 while it waits for the others; it must not change the model. Empty: nothing is.
Result<Evaluation> Evaluate(Training& training, const Samples& samples,
                            const std::function<void()>& meanwhile = {});

// --validate-every: evaluates the model between steps, keeps the best result, and stops early.
//
// All ranks evaluate their share; rank 0's judgement counts for all.
class Validation final : public StepObserver {
 public:
  using StepObserver::StepObserver;

  Result<void> AfterStep(const FinishedStep& step) override;

 private:
  void Report(const Evaluation& result);
};

}  // namespace ddprun
