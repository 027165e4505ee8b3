// Keeps something that a server knows on a disk, as it is now: one write at a time, of the newest.
//
// A write that fails, or whose disk is silent, is said once per outage, counts as done (no run
// waits for a full disk, or for one that hangs) and is tried again. Lives on the loop.
#pragma once

#include <functional>
#include <string>

#include "common/loop.h"
#include "common/result.h"

namespace ddprun {

class KeptWrite {
 public:
  struct Task {
    std::function<Result<void>()> write;  // On the disk's thread: it owns all that it touches.
    std::function<void()> done;           // On the loop. Perhaps more than once.
  };

  // `what`: "the claim in ...". `unknown`: the facts that the next server lacks without it.
  KeptWrite(Loop& loop, std::string what, std::string unknown);

  // For what is to be there from now on.
  void Write(Task task);

 private:
  void WriteNext();
  void OnSilence();
  void OnWritten(const Result<void>& written);
  // Once per outage. Empty: it can be written.
  void Tell(const std::string& why);

  Loop& loop_;
  const std::string what_;
  const std::string unknown_;
  Task task_;
  bool due_ = false;
  bool writing_ = false;
  bool failing_ = false;
  LoopTimer again_;  // Of the write: the end of its time, or the next one.
};

}  // namespace ddprun
