// What else happens around the steps of a training: the loop calls all observers, in their order.
//
// Every rank has the same observers in the same order, so an observer may use collectives. An error
// ends the training.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/result.h"
#include "trainer/checkpoint/snapshot.h"

namespace ddprun {

class Saving;
struct Training;

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
  explicit StepObserver(Training& training) : training_(training) {}
  StepObserver(const StepObserver&) = delete;
  StepObserver& operator=(const StepObserver&) = delete;
  virtual ~StepObserver() = default;

  // Of rank 0, where there is no state to continue from: on a thread, reads another one; then gives
  // it to the learner, with a note for the log.
  virtual Result<void> ReadFreshState() { return {}; }
  virtual Result<void> TakeFreshState(std::vector<std::string>& /*notes*/) { return {}; }
  // The state to start from is in the learner.
  virtual Result<void> BeforeFirstStep() { return {}; }
  // Before the step's samples are taken.
  virtual Result<void> BeforeStep() { return {}; }
  // The parameters have been updated, and Training::state counts the step.
  virtual Result<void> AfterStep(const FinishedStep& /*step*/) { return {}; }
  // No step comes, and the final evaluations follow. Not after a stop.
  virtual Result<void> AfterLastStep() { return {}; }
  // Of rank 0. The last checkpoint is saved, by an earlier start perhaps, and is still ours.
  virtual Result<void> AfterLastSave(Saving& /*saving*/,
                                     const std::shared_ptr<const Snapshot>& /*last*/) {
    return {};
  }
  // The training has ended, with an error perhaps. Everything that had to be saved is.
  virtual Result<void> Close(const Result<TrainingEnd>& /*end*/) { return {}; }

 protected:
  Training& training_;
};

}  // namespace ddprun
