// Listens to libtorch's operators (RecordFunction, the hook that PyTorch's own profiler uses too),
// to its allocations on the calling thread, and to the trainer's named ranges.
//
// One recorder at a time in a process. While none listens a range costs some ten nanoseconds.
// Torch-free to its callers.
#pragma once

#include <memory>
#include <vector>

#include "trainer/profiler/report.h"

namespace ddprun {

class OperatorRecorder {
 public:
  // From here on; allocations of the constructing thread only.
  OperatorRecorder();
  ~OperatorRecorder();
  OperatorRecorder(const OperatorRecorder&) = delete;
  OperatorRecorder& operator=(const OperatorRecorder&) = delete;

  // The events that have ended so far, once. Called between steps; events that are still on their
  // way then (another thread reports the end of an all-reduce) are waited for, a tenth of a second
  // at most.
  std::vector<ProfiledEvent> Take();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// From construction to destruction, in this thread; the name lives as long.
class NamedRange {
 public:
  explicit NamedRange(const char* name);
  ~NamedRange();
  NamedRange(const NamedRange&) = delete;
  NamedRange& operator=(const NamedRange&) = delete;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;  // None without a listener.
};

}  // namespace ddprun
