// Ends, or starts again, a Slurm job whose batch script is gone with its host: under --no-kill the
// job would stay RUNNING with nothing in it until its time limit, since nobody waits for its step.
//
// Acts once, when this agent's own part is over, and only where there is a reason to suspect it:
// this node carries the server that the first one had, or no rendezvous could be reached (69; the
// first sixteen nodes alone, so that a large job does not ask at once). Then all of this must hold,
// by slurmctld's own word:
//
//   the job is RUNNING, and was requeued as often as when this step began
//   it has a batch script, on a host other than this one, and that host does not answer
//
//   ended with 75 or 69     scontrol requeue JOB: what the script's last line would do
//   anything else           scancel JOB: the run is over, its nodes are free
//
// Never touches a job whose batch host is up: its script knows what to do.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "common/asio_loop.h"
#include "launcher/environment/surroundings.h"
#include "launcher/slurm/scheduler_command.h"

namespace ddprun {

// "JobId=7 JobState=RUNNING ...": the first value of each name, as `scontrol --oneliner` prints it.
std::map<std::string, std::string> ReadFields(std::string_view line);

// Empty: this agent starts the job again, or ends it; else why it leaves it alone. `node` is
// the batch host's line; empty: not asked for yet.
std::string WhyLeaveAlone(const Surroundings& around, const std::map<std::string, std::string>& job,
                          const std::map<std::string, std::string>& node);

class JobRescue {
 public:
  // `serving`: this node carries the server. `say`: what was done, for where people look when
  // nobody reads what the agent prints.
  JobRescue(AsioLoop& loop, const Surroundings& around,
            std::function<void(const std::string&)> say);

  // `done` on the loop, perhaps at once, at the latest after a minute and a half.
  void Begin(int exit_code, bool serving, std::function<void()> done);

 private:
  void OnJob(const Result<std::string>& printed);
  void OnNode(const Result<std::string>& printed);
  void Leave(const std::string& why);

  const Surroundings& around_;
  std::function<void(const std::string&)> say_;
  std::function<void()> done_;
  SchedulerCommand command_;
  std::map<std::string, std::string> job_;
  int exit_code_ = 0;
};

}  // namespace ddprun
