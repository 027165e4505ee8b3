// One launch is two processes that watch each other: the guard, whose pid the user and the
// scheduler see, and the agent, its child.
//
//   guard   passes each signal's number on, and the agent's exit code back. When the agent has died
//           it kills every process that the agent left. While the agent is being set up, a signal
//           kills the agent (SIGKILL) instead, because the set-up may be waiting for something
//   agent   gets signals only from the guard, so that Ctrl-C, or a scheduler that signals both
//           processes, counts once; notices the guard's death by end of file
//   helper  a second child of the guard, started when all others are dead: does what the dead agent
//           cannot do any more
//
// Both are subreapers: when one of them dies, all its descendants become the other one's children.
// The guard does nothing else and starts no thread.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "common/asio_loop.h"
#include "common/files.h"

namespace ddprun {

// The agent's end of the connection to its guard. Movable; may outlive the loop it watches on.
class GuardLink {
 public:
  explicit GuardLink(UniqueFd socket) : socket_(std::move(socket)) {}

  // Calls back on the loop until the link is destroyed. on_signal gets TERM, INT, HUP, QUIT, USR1,
  // USR2 or WINCH; on_guard_gone once: the agent must then KillAllDescendants (last_sweep.h) and
  // exit.
  void Watch(AsioLoop& loop, std::function<void(int signal)> on_signal,
             std::function<void()> on_guard_gone);

  // The guard keeps a duplicate of this descriptor, and so a lock on its file, until no process of
  // this launch is left. False: the request could not be sent.
  bool HoldUntilGone(int fd);

  // When the agent is dead and no process of it is left, RunGuarded's `after_death` gets this text.
  // It replaces the text of an earlier call; an empty one means that nothing is to be done. Never
  // waits. Lost only if the guard has not read some hundred earlier messages.
  void LeaveAtDeath(const std::string& text);

  // The guard does not end this process, which outlives the launch (--keep-warm). False: the
  // request could not be sent.
  bool Spare(pid_t pid);

  // When no process of this launch is left, the guard removes this directory, an absolute path,
  // with its contents: the agent may be killed before it can. If the file system is not responding
  // for seconds, the directory is left behind, and a message says so. One directory: the last of
  // those that are named. False: the request could not be sent.
  bool RemoveWhenGone(const std::filesystem::path& directory);
  // The same, unless the agent calls SayUsed: then the directory is kept.
  bool RemoveUnlessUsed(const std::filesystem::path& directory);
  void SayUsed();

 private:
  bool Send(const std::string& message);

  UniqueFd socket_;
  bool unless_used_ = false;  // The directory, and SayUsed was not called.
  std::shared_ptr<void> watch_;
};

// Forks; call it before any thread or library starts. In the agent, runs agent_main and ends the
// process with its result. In the guard, returns once every descendant is gone: the agent's exit
// code, or 128+N if another process ended it with signal N. If the agent caused the signal itself
// (SIGABRT, often because memory ran out; SIGSEGV and similar), that is ddprun's own failure: 70.
// It returns 1 if the agent could not be started at all.
//
// In a launch that begins in a kept preload process (kept_launch.h) the two are there already, and
// nothing is forked.
//
// `after_death`: called with the text of LeaveAtDeath, in a process of its own that has 2 s. That
// is after every other process has ended and before the guard ends. It may be cut off at any point.
int RunGuarded(const std::function<int(GuardLink)>& agent_main,
               const std::function<void(const std::string&)>& after_death = nullptr);

}  // namespace ddprun
