#include "rendezvous/journal.h"

#include <utility>

#include "common/log.h"

namespace ddprun {

Journal::Journal(Loop& loop, std::shared_ptr<JournalDisk> disk)
    : loop_(loop), disk_(std::move(disk)) {}

void Journal::Keep(const RunRecord& record, std::function<void()> kept) {
  Add(record.run_id, {record, std::move(kept)});
}

void Journal::KeepEnd(const EndedRun& run) {
  Add(run.run_id, {run, [] {}});
}

void Journal::Forget(const RunId& run_id) {
  Add(run_id, {Forgotten{run_id}, [] {}});
}

void Journal::BeginReign(Term term) {
  Add("", {Reign{term}, [] {}});
}

void Journal::Add(const RunId& key, Waiting waiting) {
  loop_.CheckOnLoop();
  waiting_.insert_or_assign(key, std::move(waiting));  // The older one's `kept` is in the newer's.
  if (!writing_) {
    WriteNext();
  }
}

void Journal::WriteNext() {
  if (waiting_.empty()) {
    return;
  }
  writing_ = true;
  const auto next =
      std::make_shared<Waiting>(std::move(waiting_.extract(waiting_.begin()).mapped()));
  const auto result = std::make_shared<Result<void>>();
  loop_.RunOnDisk([disk = disk_, next, result] { *result = disk->Append(next->entry); },
                  [this, next, result] {
                    writing_ = false;
                    if (!*result && !failing_) {
                      Log(LogLevel::kError,
                          "the journal cannot be written: " + result->error().message +
                              "; the runs go on, but a server that restarts now will know only "
                              "what agents report (it is tried again with the next record)");
                    } else if (*result && failing_) {
                      Log(LogLevel::kInfo, "the journal can be written again");
                    }
                    failing_ = !*result;
                    next->kept();
                    if (!writing_) {
                      WriteNext();
                    }
                  });
}

}  // namespace ddprun
