// Writes checkpoints on a thread of its own, so that the training loop waits for the copy only.
//
// One save in flight and at most one queued, which only its owner takes back. A second thread shows
// that this world lives (fence-alive) and asks the fence once a second whether another world has
// taken over, also during a save of minutes. The store belongs to these threads from construction
// to destruction. The methods are for the training loop; only Drain, Close and the destructor wait
// for the disk. This mutex is the trainer's hand-over; ddprun itself has none.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "trainer/checkpoint/checkpoint_store.h"

namespace ddprun {

struct SaverOptions {
  // The time between moves of the counter: more than a third of AliveOptions::watch lets a newcomer
  // take this run for dead.
  std::chrono::milliseconds show_life{2000};
  // The time between checks of the fence: too long lets a replaced world train on.
  std::chrono::milliseconds check_fence{1000};
  // Called after each check of the fence that found nothing newer, where a file system that hangs
  // holds up nothing else; unset: no caller wants to know.
  std::function<void()> look;
};

struct SaveResult {
  std::uint64_t step = 0;
  std::optional<Error> error;  // kRefused: fenced. Others: the older checkpoints stand; continue.
  std::vector<std::string> warnings;
};

class Saver {
 public:
  // The store has claimed its directory. The destructor finishes what is in flight and queued.
  Saver(CheckpointStore& store, SaverOptions options);
  Saver(const Saver&) = delete;
  Saver& operator=(const Saver&) = delete;

  // Whether Save would take one now. Only the caller of Save changes that to no.
  bool HasRoom() const;
  // A snapshot that was written, for its memory. None: none is to spare.
  std::optional<Snapshot> TakeSpent();
  // The queued one back, unwritten, for one that matters more and for its memory. None: there is
  // none.
  std::optional<Snapshot> TakeQueued();
  // Hands over. False: one is queued already, and the snapshot is untouched (Drain and try again,
  // or skip this one).
  bool Save(Snapshot&& snapshot);
  // Until nothing is in flight or queued.
  void Drain();
  // Drains, then records that this run is done with the directory.
  Result<void> Close();

  // Each finished save once, oldest first.
  std::vector<SaveResult> TakeResults();
  // Why this world may no longer save. None: it may.
  std::optional<Error> fenced() const;

 private:
  void RunSaver(const std::stop_token& end);
  void RunWatcher(const std::stop_token& end);
  SaveResult SaveOne(const Snapshot& snapshot);
  void NoteFenced(const Error& error);  // With mutex_ held.
  bool Idle() const { return !queued_ && !saving_; }

  CheckpointStore& store_;
  const SaverOptions options_;
  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  std::optional<Snapshot> queued_;
  std::optional<Snapshot> spent_;
  bool saving_ = false;
  bool closed_ = false;  // No fence to watch any more.
  std::optional<Error> fenced_;
  std::vector<SaveResult> results_;
  // Last: they use all above. The watcher ends after the saver.
  std::jthread watcher_{[this](const std::stop_token& end) { RunWatcher(end); }};
  std::jthread saver_{[this](const std::stop_token& end) { RunSaver(end); }};
};

}  // namespace ddprun
