// One launch is two processes that watch each other: the guard, whose pid the user and the
// scheduler see, and the agent, its child.
//
//   helper  a second child of the guard, once all others are dead: does what the dead agent cannot
//   guard   passes each signal number on, passes the exit code back, and when the agent is dead
//           kills everything that is left of it. While the agent is being set up a signal ends it
//           instead (SIGKILL): whatever it waits for there, no launch is deaf
//   agent   hears of signals only from the guard (so Ctrl-C, or a scheduler that signals both,
//           counts once), and of the guard's death by end of file
//
// Both are subreapers: whoever dies, all descendants come to the other one. The guard does nothing
// else and starts no thread.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "common/asio_loop.h"
#include "common/files.h"
#include "common/time.h"

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

  // The guard keeps a duplicate of this descriptor, and so a lock on its file, until nothing of
  // this launch is left. False: the guard could not be told.
  bool HoldUntilGone(int fd);

  // When the agent is dead and nothing of it is left, RunGuarded's `after_death` gets this text; an
  // empty one: nothing. In place of what was left before. Never waits; lost only if the guard has
  // not read some hundred others.
  void LeaveAtDeath(const std::string& text);

  // When nothing of this launch is left, the guard removes this directory, an absolute path, and
  // all that is in it: the agent may be killed before it can. What its disk does not let go of
  // within seconds is left behind, and told. False: the guard could not be told.
  bool RemoveWhenGone(const std::filesystem::path& directory);
  // The same, as long as the agent has not said that something in it is to be kept.
  bool RemoveUnlessUsed(const std::filesystem::path& directory);
  void SayUsed();

 private:
  bool Send(const std::string& message);

  UniqueFd socket_;
  bool used_ = false;  // That was said.
  std::shared_ptr<void> watch_;
};

// Forks; call it before any thread or library starts. In the agent, runs agent_main and ends the
// process with its result; in the guard, returns the agent's exit code once every descendant is
// gone, or 128+N when a signal N that others send ended it. One that a process causes itself
// (SIGABRT, often for want of memory; SIGSEGV and its like) is ddprun's own failure: 70. 1 when the
// agent could not be started at all.
//
// `after_death`: where the agent has left a text, it runs with that in a process of its own, for
// 2 s at most, after everything else has ended and before the guard does. It must be able to do
// without whatever that time was too short for.
int RunGuarded(const std::function<int(GuardLink)>& agent_main,
               const std::function<void(const std::string&)>& after_death = nullptr);

}  // namespace ddprun
