// Has the user's own command look at this machine (--node-check) while no worker is here.
//
// It is run by /bin/sh -c, as system() and cron do: one flag holds a whole line, with the quotes,
// pipes and && that its writer knows, and nothing of it is parsed here. A child with a session of
// its own, started and watched on a thread, so that neither its disk nor what it does holds up the
// loop. It has nothing to read; of what it prints the end is kept (verdict.h). At its end or its
// limit whatever it has started is killed, in whatever session, before the verdict comes. A command
// that cannot be run, or outlives SIGKILL, is a verdict too: there is no other error.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "agent/host/verdict.h"
#include "agent/workers/child_run.h"
#include "common/lifetime.h"
#include "common/loop.h"

namespace ddprun {

class NodeCheck {
 public:
  NodeCheck(Loop& loop, std::string command, Duration limit);
  ~NodeCheck();
  NodeCheck(const NodeCheck&) = delete;
  NodeCheck& operator=(const NodeCheck&) = delete;

  // `verdict` comes on the loop, later, once: why the node is unfit; "": it passes. Until then no
  // worker may be started. `cause`: the value of DDPRUN_CHECK_CAUSE for the command. One that still
  // runs is stopped first.
  void Run(const std::string& cause, std::function<void(std::string)> verdict);

  // Ends one that runs; no verdict comes any more. Processes that it left in other sessions are
  // ended by the guard.
  void Stop();

  // Ends one that runs, with all that it has started; `done` comes instead of the verdict, or at
  // once if none runs.
  void End(std::function<void()> done);

 private:
  void OnEnded(const CheckOutcome* outcome);
  void SweepThenTell(const std::string& unfit, Time until);
  void Tell(const std::string& unfit);

  Loop& loop_;
  const std::string command_;
  const Duration limit_;
  LoopTimer sweep_;
  std::shared_ptr<ChildRun> child_;           // Of the newest one.
  std::function<void(std::string)> verdict_;  // None is waited for.
  std::string last_;
  const Lifetime life_;
};

}  // namespace ddprun
