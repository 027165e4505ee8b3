// All that a run leaves in its directory while it is served here: events.jsonl, and the files of
// what it looks like (run_files.h).
//
// Decides nothing: one is told what the other is. On the loop, but for Finish.
#pragma once

#include <filesystem>
#include <string>

#include "launcher/evidence/event_file.h"
#include "launcher/evidence/run_files.h"
#include "rendezvous/driver.h"

namespace ddprun {

class RunEvidence {
 public:
  // As RunFiles.
  RunEvidence(Loop& loop, const std::filesystem::path& directory, const RunId& run_id,
              const std::string& node);

  // From now on this server's runs; it outlives this, or ServerWent is called before.
  void ServerCame(CoordinatorDriver& server);
  void ServerWent() { files_.Stop(); }

  // The loop has ended, and the server has not yet.
  void LookLast() { files_.LookLast(); }
  // The server has ended too. Both wait for the disk, `limit` each.
  void Finish(Duration limit);

 private:
  EventFile events_;
  RunFiles files_;
};

}  // namespace ddprun
