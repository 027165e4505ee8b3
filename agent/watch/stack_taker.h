// Has the stacks of hung workers written to files, by children of its own, so that neither a slow
// tool nor a file that blocks, in /proc or on the disk they go to, holds up the loop. Nor does the
// disk that the program is on: a thread starts each.
//
// The children are `<program> stacks` (agent/watch/stack_dump.h), a few at a time, in the order
// given. They belong to the generation like everything this process starts meanwhile: killing it
// ends them.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "agent/workers/child_run.h"
#include "common/files.h"
#include "common/lifetime.h"
#include "common/loop.h"

namespace ddprun {

// `ddprun stacks --into` ends its stdout with this, after what is wrong with that file, and exits
// with this code, where a Python's frames are unknown.
inline constexpr const char* kFramesUnknownText = "its own frames are unknown\n";
inline constexpr int kFramesUnknown = 3;

struct StackJob {
  pid_t pid = 0;
  std::string title = {};           // The first line.
  std::filesystem::path file = {};  // Made anew, mode 0600. Empty: `output`.
  std::filesystem::path also =
      {};  // Appended to it too where this file exists: the worker's stderr.
  std::shared_ptr<UniqueFd> output = nullptr;
  bool live = false;                    // It is to continue: --live.
  std::string notify = {};              // Its notify socket; empty: as its environment says.
  std::filesystem::path recorder = {};  // Torch's record goes here; empty: nowhere.
};

class StackTaker {
 public:
  // `program` is this very one: its main knows the verb.
  StackTaker(Loop& loop, std::string program);
  ~StackTaker();
  StackTaker(const StackTaker&) = delete;
  StackTaker& operator=(const StackTaker&) = delete;

  // `done` comes on the loop, later, once all have been tried, unless Take or Forget is called
  // before: for each, in the order given, 0 or kFramesUnknown; -1 where it was not tried. Each gets
  // `limit` at most.
  using Done = std::function<void(const std::vector<int>&)>;
  void Take(std::vector<StackJob> jobs, Duration limit, Done done);

  // `done` never comes.
  void Forget();

 private:
  void Next();
  void Run(std::size_t at);
  WorkerSpec SpecOf(const StackJob& job) const;

  Loop& loop_;
  const std::string program_;
  std::vector<StackJob> jobs_;
  Duration limit_{0};
  Done done_;
  std::vector<int> codes_;
  std::vector<std::shared_ptr<ChildRun>> children_;  // Shared with their threads.
  std::size_t running_ = 0;
  std::size_t started_ = 0;
  Lifetime round_;  // Renewed by Forget.
};

}  // namespace ddprun
