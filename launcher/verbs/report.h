// `ddprun report`: what is known of a run, packed into one file to hand on.
//
// Of a run's directories, whether it runs or is over; of one that runs also from afar, by what its
// server tells. Of a run's directories, whether it runs or is over; of one that runs also from
// afar, by the server's status. evidence/run_archive.h decides which files go in.
#pragma once

#include <string>
#include <vector>

#include "launcher/server/server_files.h"

namespace ddprun {

struct ReportRequest {
  ServerQuery server;
  std::vector<std::string> directories;  // None: that of the server which is found.
  std::string file;                      // Empty: by the run's name, here, and nothing is replaced.
  bool json = false;                     // How to tell what was packed.
};

// Returns, for stdout, what was packed. kInvalid: that is no directory; kUnavailable: none was
// given, and no server answers.
Result<std::string> PackReport(const ReportRequest& request);

}  // namespace ddprun
