// `ddprun status`: a server's runs on one screen, or as JSON.
//
// Only formatting of what the server tells; asks once, never waits for a change.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/endpoint.h"
#include "launcher/server/server_files.h"
#include "rendezvous/core/status.h"

namespace ddprun {

struct StatusRequest {
  ServerQuery server;
  bool json = false;
  bool links = false;  // Instead: where its page is.
  bool watch = false;  // Again each second, until the run has ended: watch_status.h.
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

// Asks once; for stdout. kUnavailable: no server answers.
Result<std::string> StatusNow(const StatusRequest& request);

}  // namespace ddprun
