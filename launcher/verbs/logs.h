// `ddprun logs`: what the workers of all nodes printed, from any machine, in order of time.
#pragma once

#include <atomic>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "launcher/server/server_files.h"
#include "launcher/verbs/log_merge.h"
#include "rendezvous/messages/operator_request.h"

namespace ddprun {

struct LogsRequest {
  std::string word;  // The run's name, or the directory of its logs (log_files.h); empty: neither.
  ServerQuery server;
  RequestSpec spec;
  std::vector<NodeId> nodes;  // None: all.
  bool json = false;
};

// One line, with its end: "12:03:04.567 [r3 n1] text", stderr's as [r3 n1!]; or an object of JSON.
std::string FormatLogLine(const LogLine& line, bool json);

// To stdout. 0; 1: a node could not be asked, or a rank's output is not kept (stderr says which);
// 69: no server answers, or it went while it was asked.
int PrintLogs(const LogsRequest& request);

// Prints what the workers of a run print, as its launch does: lines of stdout and of stderr, each
// with its node's name before it. On a thread of its own, from the first line that nodes keep.
class RunFollower {
 public:
  RunFollower(ServerPlace place, RunId run_id);
  RunFollower(const RunFollower&) = delete;
  RunFollower& operator=(const RunFollower&) = delete;

  // No process of the run is left: it ends once all that came is printed.
  void RunIsOver() { over_ = true; }
  // Something waits for the reader of the output.
  bool prints() const { return prints_; }
  // So it has; or no one reads the output any more.
  bool done() const { return done_; }

 private:
  void Follow(const std::stop_token& leaves);

  const ServerPlace place_;
  const RunId run_id_;
  std::atomic<bool> over_ = false;
  std::atomic<bool> prints_ = false;
  std::atomic<bool> done_ = false;
  std::jthread thread_;  // Last: at its end it leaves what is not printed.
};

}  // namespace ddprun
