// All that a run leaves in its directory while it is served here: events.jsonl, the files of what
// it looks like (report_file.h), and what it looked like when it hung or failed (run_bundle.h).
//
// Decides nothing: passes on to each what the other learns. On the loop, but for Finish.
#pragma once

#include <filesystem>
#include <string>

#include "launcher/evidence/event_file.h"
#include "launcher/evidence/report_file.h"
#include "launcher/evidence/run_bundle.h"
#include "rendezvous/driver.h"

namespace ddprun {

class RunEvidence {
 public:
  // As ReportFile.
  RunEvidence(Loop& loop, const std::filesystem::path& directory, const RunId& run_id,
              const std::string& node);

  // From now on this server's runs; it outlives this, or ServerWent is called before.
  void ServerCame(CoordinatorDriver& server);
  void ServerWent() {
    files_.Stop();
    bundle_.Stop();
  }

  // The loop has ended, and the server has not yet.
  void LookLast() { files_.LookLast(); }
  // The server has ended too. All wait for the disk, `limit` each.
  void Finish(Duration limit);

 private:
  EventFile events_;
  ReportFile files_;
  RunBundle bundle_;
};

}  // namespace ddprun
