// Keeps records on disk without making the loop wait: one at a time on the disk's thread,
// and of a run whose records pile up behind a slow disk only the newest.
//
// Decides nothing about runs. A record that cannot be written is said once per outage and counts as
// kept: a run does not wait for a full disk; a server that restarts then knows less and asks the
// nodes. Lives on the loop.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <variant>

#include "common/loop.h"
#include "common/result.h"
#include "rendezvous/core/coordinator.h"

namespace ddprun {

// A server starts under this term.
struct Reign {
  Term term;
};
// The run is over, and nobody will ask.
struct Forgotten {
  RunId run_id;
};
// EndedRun: everybody who had to know does, but a node of it may be about to come back.
using JournalEntry = std::variant<Reign, RunRecord, EndedRun, Forgotten>;

// Where the entries go: a file (journal_file.h), or what stands for one in a simulation.
class JournalDisk {
 public:
  virtual ~JournalDisk() = default;
  // It survives this process when this returns. Blocks.
  virtual Result<void> Append(const JournalEntry& entry) = 0;
};

class Journal {
 public:
  Journal(Loop& loop, std::shared_ptr<JournalDisk> disk);

  // `kept` is called on the loop when this record, or a newer one of the run, is on disk.
  void Keep(const RunRecord& record, std::function<void()> kept);
  void KeepEnd(const EndedRun& run);
  void Forget(const RunId& run_id);
  void BeginReign(Term term);

 private:
  struct Waiting {
    JournalEntry entry;
    std::function<void()> kept;
  };
  void Add(const RunId& key, Waiting waiting);
  void WriteNext();

  Loop& loop_;
  std::shared_ptr<JournalDisk> disk_;  // The disk thread's while a record is being written.
  std::map<RunId, Waiting> waiting_;   // "": a reign.
  bool writing_ = false;
  bool failing_ = false;
};

}  // namespace ddprun
