// The workers of this node, one generation after the other, as its driver asks for them and hears
// of them. Real ones are processes (process_workers.h), others are a simulation's.
//
//   Start -> started (a result) -> spoke* -> (dying) -> ended (each) -> all_gone
//         -> all_gone: the stop was ordered before it was started
//
// Decides nothing: the caller says which workers are stopped when. Used on the loop, and calls back
// there, never from inside a call but HearNow.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "common/exit_status.h"
#include "common/result.h"
#include "proto/notify.h"
#include "rendezvous/messages/messages.h"

namespace ddprun {

// The remains of a dead worker, for people.
struct WorkerRemains {
  FailureDetails details;
  std::vector<std::string> last_lines;
};

// Where that lies, on a disk that may hang.
struct LeftFiles {
  std::string directory;                // For people.
  std::function<WorkerRemains()> read;  // On any thread, and perhaps for ever.
  std::vector<std::string> last_lines;  // Known without reading files.
};

struct WorkerEnd {
  std::uint32_t local_rank = 0;
  std::int64_t pid = 0;
  ExitStatus status;
  std::int64_t unix_ms = 0;  // When it was noticed, beside what workers wrote of it.
  LeftFiles left;            // Of one that failed.
};

struct WorkersEvents {
  // All of them, or none: then no process of the generation is left.
  std::function<void(const Result<void>&)> started;
  std::function<void(std::uint32_t local_rank, const Notification&)> spoke;
  // It will end, and not with success: known before its memory was given back. Of some workers.
  std::function<void(std::uint32_t local_rank)> dying;
  std::function<void(WorkerEnd)> ended;  // In wait order; its earlier reports come before.
  // After the order to end at once: a worker that catches TERM has worked since a second ago.
  std::function<void()> active;
  // Nothing is left of the generation, and its output was drained.
  std::function<void()> all_gone;
};

class NodeWorkers {
 public:
  virtual ~NodeWorkers() = default;

  // Once, before all else.
  virtual void Listen(WorkersEvents events) = 0;

  // Of the last generation nothing may be left. Returns the directory that has one for each of
  // them.
  virtual std::filesystem::path Start(const Placement& placement) = 0;
  // The present step of the start, for people; "": nothing is being started. Said when it lasts;
  // what may well last says why at its end, in parentheses.
  virtual std::string Starting() const = 0;

  // TERM, INT, HUP and QUIT give a start up. `end_at_once`: proto/stop_signal.h.
  virtual void SignalAll(int signal, bool end_at_once) = 0;
  virtual void KillAll() = 0;

  // Reads the workers' progress that woke no thread: called before it is judged that one reports
  // nothing. `spoke` is called from inside of it.
  virtual void HearNow() {}

  // Of those that run, in this order, into files, and tells people where; each within `limit`.
  // `done` never comes once all are gone.
  virtual void TakeStacks(const std::vector<std::uint32_t>& local_ranks, Duration limit,
                          std::function<void()> done) = 0;
};

}  // namespace ddprun
