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

  // What has ended so far, once. Called between steps; what is still on its way then (the end of an
  // all-reduce is told by another thread) is waited for, a tenth of a second at most.
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
  std::unique_ptr<Impl> impl_;  // None while nobody listens.
};

}  // namespace ddprun
