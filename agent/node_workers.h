// Interface to the workers of this node, one generation after the other. Real workers are processes
// (process_workers.h), others are simulated.
//
//   Start -> started (a result) -> spoke* -> (dying) -> ended (each) -> all_gone
//         -> all_gone: the stop was ordered before the start was done
//
// Decides nothing: the caller says which workers are stopped when. Used on the loop. Calls back on
// the loop, and never from inside a call.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "common/exit_status.h"
#include "common/result.h"
#include "proto/worker_word.h"
#include "rendezvous/messages/messages.h"

namespace ddprun {

// The remains of a dead worker, for people.
struct WorkerRemains {
  FailureDetails details;
  std::vector<std::string> last_lines;
};

// The files that a dead worker left, on a file system that may hang.
struct LeftFiles {
  std::string directory;                // For messages.
  std::function<WorkerRemains()> read;  // May be called on any thread, and may never return.
  std::vector<std::string> last_lines;  // Known without reading files.
};

struct WorkerEnd {
  std::uint32_t local_rank = 0;
  std::int64_t pid = 0;
  ExitStatus status;
  std::int64_t unix_ms = 0;  // When the agent noticed it, by the wall clock.
  LeftFiles left;            // The files of a worker that failed.
};

struct WorkersEvents {
  // All of them, or none: then no process of the generation is left.
  std::function<void(const Result<void>&)> started;
  std::function<void(const WorkerWord&)> spoke;
  // A worker will end, and not with success: known before its memory is freed, for workers with a
  // life lock.
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

  // Starts a generation; no process of the last one may be left. Returns the directory that has a
  // directory for each worker.
  virtual std::filesystem::path Start(const Placement& placement) = 0;
  // The present step of the start, for a message when it lasts; "": nothing is being started. A
  // step that is slow by nature says why in parentheses.
  virtual std::string Starting() const = 0;

  // TERM, INT, HUP and QUIT also cancel a start. `end_at_once`: proto/stop_signal.h.
  virtual void SignalAll(int signal, bool end_at_once) = 0;
  virtual void KillAll() = 0;

  // Writes the stacks of these workers that run to files, in this order, each within `limit`, and
  // logs where. `done` is not called once all workers are gone.
  virtual void TakeStacks(const std::vector<std::uint32_t>& local_ranks, Duration limit,
                          std::function<void()> done) = 0;
};

}  // namespace ddprun
