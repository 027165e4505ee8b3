// One process that trains: what every program on this library does before and after its training.
//
// Flags, environment, device, threads, the launcher's notify socket, and the exit code: 0 finished,
// 2 wrong usage, 75 restart me, 76 do not restart me, 1 anything else (common/exit_code.h).
#pragma once

#include <functional>
#include <string>
#include <variant>

#include "common/result.h"
#include "trainer/loop/steps.h"
#include "trainer/loop/training.h"
#include "trainer/options/config.h"

namespace ddprun {

struct WorkerProgram {
  std::string name;  // In lines of the log.
  std::function<std::variant<TrainConfig, EarlyExit>(int argc, const char* const* argv)> parse;
  // More threads per rank than this make a step slower.
  std::function<int(const TrainConfig&)> most_threads;
  // Before a preload process forks workers: loads what they need. It must not throw.
  std::function<void(const TrainConfig&)> warm_up;
  std::function<Result<TrainingEnd>(Training&, TrainingSteps&)> train;
};

// The value is main's exit code, with which the caller ends by EndProcess.
int RunWorker(const WorkerProgram& program, int argc, char** argv);

// Writes out what was logged, and ends without destructors: libtorch would take a tenth of a second
// to forget its operators one by one.
[[noreturn]] void EndProcess(int code);

}  // namespace ddprun
