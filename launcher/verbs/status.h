// `ddprun status`: a server's runs on one screen, or as JSON.
//
// Only formatting of what the server tells; asks once, and with --watch each second until the run
// has ended, on a connection of its own each time, so a server that moves is found again.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "launcher/server/server_files.h"
#include "rendezvous/core/status.h"

namespace ddprun {

struct StatusRequest {
  ServerQuery server;
  bool json = false;
  bool links = false;  // Instead: where its page is.
  bool watch = false;  // Again each second, until the run has ended.
};

// One run: the whole of it; several: one line each, as the server lists them.
// `now_unix`: seconds since 1970, for the time that the job has left.
std::string FormatStatus(const std::vector<RunStatus>& runs, const std::string& where,
                         std::int64_t now_unix);

// The same for a screen of so many lines, those nodes first that are to be looked at first: late,
// not running, behind.
std::string FormatScreen(const RunStatus& run, std::int64_t now_unix, std::size_t rows);

// The server's status. Errors as PrintError takes them.
Result<std::vector<RunStatus>> RunsAt(const ServerPlace& place, const RunId& run_id);

// One object: {"endpoint": ..., "runs": [...]}; durations in seconds.
std::string StatusJson(const std::vector<RunStatus>& runs, const std::string& where,
                       std::int64_t now_unix);

// The links of each run's page, as a server answers at `address`; of several runs first those of
// all.
std::string PagesOf(const std::vector<RunStatus>& runs, const std::string& address,
                    const std::string& token);

// Asks once; for stdout. kUnavailable: no server answers. `over` becomes whether the one run is.
Result<std::string> StatusNow(const StatusRequest& request, bool* over = nullptr);

// Asks again and again, one text after the other. A look that fails is shown in place of the run,
// and tried again for 15 s. 0: the run has ended; 69: no server answers, or none any more; 1:
// refused, or the reader has gone.
int WatchStatus(const StatusRequest& request);

}  // namespace ddprun
