// `ddprun logs`: what the workers of all nodes printed, from any machine, in order of time.
#pragma once

#include <string>
#include <vector>

#include "launcher/server/server_files.h"
#include "launcher/verbs/log_merge.h"
#include "rendezvous/messages/operator_request.h"

namespace ddprun {

struct LogsRequest {
  std::string directory;  // Of a run's logs (log_files.h); empty: its server is asked.
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

}  // namespace ddprun
