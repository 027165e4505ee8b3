// Everything about this node's workers that is known before any process is started: the program,
// the CPUs of each worker, what is added to their environment and taken out of it.
//
// Looks at files and at the process's environment; changes nothing.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "agent/workers/numa_binding.h"
#include "agent/workers/worker_spec.h"
#include "launcher/command_line/config.h"

namespace ddprun {

struct Preparation {
  Command command;
  std::vector<std::string> removed;        // Variables of the environment: --scrub-env.
  std::optional<std::size_t> omp_threads;  // OMP_NUM_THREADS, if it is not set.
  std::size_t cpus = 1;                    // That ddprun may use.
  NumaPlan numa;
  std::string preload;        // Python modules that workers are forked with; "": they are not.
  bool preload_auto = false;  // The user did not ask for it (WarmPlan).
  std::string no_preload;     // Why `preload` is empty; "": no reason to report.
};

// Errors are kInvalid or kNotFound: exit 2.
Result<Preparation> Prepare(const LaunchConfig& config);

}  // namespace ddprun
