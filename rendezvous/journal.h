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
#include <optional>

#include "common/loop.h"
#include "rendezvous/journal_file.h"

namespace ddprun {

class Journal {
 public:
  Journal(Loop& loop, JournalFile file);

  // `kept` is called on the loop when this record, or a newer one of the run, is on disk.
  void Keep(const RunRecord& record, std::function<void()> kept);
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
  std::shared_ptr<JournalFile> file_;  // The disk thread's while a record is being written.
  std::map<RunId, Waiting> waiting_;   // "": a reign.
  bool writing_ = false;
  bool failing_ = false;
};

}  // namespace ddprun
