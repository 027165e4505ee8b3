// The end of a launch: from the moment at which the agent knows how it ends, to the loop's end.
//
// Decides what comes next, and what a signal means meanwhile. Does none of it: the steps are the
// caller's, and none of them makes the loop wait, so that a server that is here answers all along.
//
//             | its step is done        | a signal that stops        | a server came | it went
//   Working   | Reading                 | noted; it is the agent's   | -             | -
//   Reading   | Reporting               | Reporting without the rest | -             | -
//   Reporting | Serving, or Leaving     | kept for the next step:    | -             | -
//             | if no node needs one    | the report is made whole   |               |
//   Serving   | Leaving                 | Over                       | serve that    | Leaving
//   Leaving   | Over                    | Over without the rest      | -             | -
//
// A signal that was kept has ended no wait for a reader: Leaving has its few seconds.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "common/loop.h"
#include "launcher/end/output_flush.h"

namespace ddprun {

class LaunchEnd {
 public:
  // All are called on the loop. Each `done` is to be called once, perhaps at once.
  struct Steps {
    std::function<std::string()> unread_output;  // Of the workers, for people; "": all is read.
    std::function<void(std::function<void()> done)> report;
    // Until no node needs it. False: no node does, or there is no server here.
    std::function<bool(std::function<void()> done)> serve;
    std::function<std::string()> unread;  // Of the workers and of ddprun's own words.
    std::function<void()> over;
  };

  LaunchEnd(Loop& loop, Steps steps) : steps_(std::move(steps)), flush_(loop) {}

  // `reading`: how long the report waits for readers of the workers' output.
  void Begin(int exit_code, Duration reading);
  bool begun() const { return phase_ != Phase::kWorking; }

  void OnSignal(int signal);
  void OnServerCame();
  void OnServerWent();

 private:
  enum class Phase { kWorking, kReading, kReporting, kServing, kLeaving, kOver };

  void Report();
  void OnReported();
  void Serve();
  void Leave();
  void BeOver();

  const Steps steps_;
  OutputFlush flush_;
  Phase phase_ = Phase::kWorking;
  int exit_code_ = 0;
  bool stopped_ = false;     // By a signal, now or before.
  std::optional<int> kept_;  // A signal that came while it was reported.
};

}  // namespace ddprun
