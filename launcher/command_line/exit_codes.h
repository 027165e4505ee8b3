// The table of exit codes. Help, the manual pages and the site's list are made from it.
#pragma once

#include <string>
#include <vector>

#include "common/exit_code.h"

namespace ddprun {

// The meanings of one exit code. A field is empty if the program never ends with the code.
struct ExitCodeRow {
  std::string code;
  std::string brief;    // Of a launch, in the short help.
  std::string launch;   // `ddprun PROGRAM`.
  std::string command;  // `ddprun status` and all other commands.
  std::string trainer;  // `ddprun-train`, `ddprun-bench-comm`.
};

inline std::vector<ExitCodeRow> ExitCodeTable() {
  const auto name = [](int code) { return std::to_string(code); };
  return {
      {name(kExitOk), "all workers finished", "every worker finished", "done; `check`: all is well",
       "finished, now or earlier; every result was right"},
      {"1", "", "", "refused, no such run, or a node could not be asked; `check`: something is bad",
       "disk, memory or CUDA failed; a result was wrong"},
      {name(kExitUsage), "bad command line",
       "the command line is wrong, or a node lacks what its workers need; nothing was retried",
       "the command line is wrong",
       "command line, environment, data, or checkpoints of another training"},
      {name(kExitUnavailable), "no rendezvous",
       "no rendezvous could be reached, too few nodes came, or the only node is refused by its "
       "check",
       "no server answers; `check`: not all nodes came", ""},
      {name(kExitInternal), "ddprun itself failed",
       "ddprun itself failed (out of memory, or a defect of its own); one line gives the cause",
       "ddprun itself failed; one line gives the cause", ""},
      {name(kExitRestart), "saved: start it again",
       "a scheduler stopped the run, or `ddprun stop --soon` did, and all workers have saved: "
       "start it again",
       "", "start all workers again: a peer is gone, or they were stopped and have saved"},
      {name(kExitDoNotRestart), "do not start again",
       "starting again would not help: a crash loop, an error that cannot heal, or a worker that "
       "says so",
       "`publish`: a newer world has taken over",
       "do not start again: another run or a newer world has the checkpoints, the ranks differ, "
       "STOP "
       "is there, or the best checkpoint is broken"},
      {name(kExitHung), "hung", "workers hung until the restarts were spent", "", ""},
      {"129-131, " + name(kExitTerminated), "stopped",
       "stopped by SIGHUP, SIGINT, SIGQUIT or SIGTERM; 130: also by `ddprun stop`, 143: also by "
       "`ddprun drain`",
       "", "stopped, without a launcher (130, 143: saved)"},
      {name(kExitSignalBase) + "+N", "killed by signal N",
       "signal N killed the worker that failed first", "", ""},
      {"others", "the code of the worker that failed first",
       "the exit code of the worker that failed first, 1 too", "", ""},
  };
}

}  // namespace ddprun
