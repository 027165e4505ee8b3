// What else happens around the steps of a training: the loop calls all observers, in their order.
//
// Every rank has the same observers in the same order, so an observer may use collectives. An error
// ends the training.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>

#include "common/result.h"

namespace ddprun {

enum class TrainingEnd {
  kFinished,
  kStopped,  // On request (StopRequest): saved, so that a later start can continue.
};

struct FinishedStep {
  std::uint64_t epoch = 0;  // Of its samples, from 0.
  bool epoch_ended = false;
  std::span<const std::uint32_t> samples;         // Of this rank.
  std::optional<std::chrono::microseconds> work;  // Before it waited for its peers; none: unknown.
};

class StepObserver {
 public:
  StepObserver() = default;
  StepObserver(const StepObserver&) = delete;
  StepObserver& operator=(const StepObserver&) = delete;
  virtual ~StepObserver() = default;

  // The state to start from is in the learner.
  virtual Result<void> BeforeFirstStep() { return {}; }
  // Before the step's samples are taken.
  virtual Result<void> BeforeStep() { return {}; }
  // The parameters have been updated, and Training::state counts the step.
  virtual Result<void> AfterStep(const FinishedStep& /*step*/) { return {}; }
  // No step comes, and the final evaluations follow. Not after a stop.
  virtual Result<void> AfterLastStep() { return {}; }
  // The training has ended, with an error perhaps. Everything that had to be saved is.
  virtual Result<void> Close(const Result<TrainingEnd>& /*end*/) { return {}; }
};

}  // namespace ddprun
