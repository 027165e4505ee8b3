// Runs tasks one after the other on a thread of its own, for callers that must not wait: a loop, or
// a training step whose peers take a rank that stands still for lost.
//
// A task may hang for ever, on a network file system say. Then what is queued waits, its caller
// does not, and at the end the thread is left behind with what its tasks refer to. So a task must
// hold what it uses, not point to its owner.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "common/time.h"

namespace ddprun {

class TaskQueue {
 public:
  // The thread is started by the first task. At most `room` tasks wait.
  explicit TaskQueue(std::size_t room = 1024);
  // Never waits. Tasks that were queued are still done.
  ~TaskQueue();
  TaskQueue(const TaskQueue&) = delete;
  TaskQueue& operator=(const TaskQueue&) = delete;

  // False: so many wait already, or no thread can be had. This task is dropped.
  bool Post(std::function<void()> task);

  // Tasks that are not under way yet.
  std::size_t waiting() const;
  // No task waits or is under way.
  bool Idle() const;
  // Waits until it is idle, for `limit` at most. False: it is not.
  bool Drain(Duration limit);

 private:
  struct Shared;
  const std::shared_ptr<Shared> shared_;  // The thread's as well, which may outlive this.
};

}  // namespace ddprun
