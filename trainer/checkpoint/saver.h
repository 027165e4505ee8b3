// Saves checkpoints beside the training loop, which waits for no disk: a thread copies the state,
// the next one writes it.
//
// One save in flight and at most one queued. A third thread shows that this world lives
// (fence-alive) and asks the fence once a second whether another world has taken over, also during
// a save of minutes. The store belongs to these threads from construction to destruction. The
// methods are for the training loop; only Drain, Close and the destructor wait for the disk. This
// mutex is the trainer's hand-over; ddprun itself has none.
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
#include <utility>
#include <vector>

#include "common/check.h"
#include "trainer/checkpoint/checkpoint_store.h"
#include "trainer/checkpoint/snapshot.h"

namespace ddprun {

// Copies a training's tensors on a thread beside the next forward and backward, so that the loop
// waits for a checkpoint's copy only as far as it outlasts them.
//
// The contract: between Begin and the return of WaitForCopy nothing changes the viewed tensors.
// Code that changes them calls it first; it costs nothing when no copy runs. Begin itself copies
// the state and the tensors that a forward changes, but none that still come from a GPU. A copy is
// made into the memory of a spent snapshot of the same layout where there is one: fresh memory
// costs several times the copying.
class SnapshotCopier {
 public:
  // `done` gets each finished copy, on the copier's thread, and may take its time. `before_copy` is
  // for tests.
  explicit SnapshotCopier(std::function<void(Snapshot&&)> done,
                          std::function<void()> before_copy = {});
  SnapshotCopier(const SnapshotCopier&) = delete;
  SnapshotCopier& operator=(const SnapshotCopier&) = delete;

  // Waits for the copy before, as Wait does. `spent` gives its memory.
  void Begin(SnapshotView view, TrainState state, std::optional<Snapshot> spent);
  // Until the copy is made.
  void WaitForCopy();
  // Until `done` has returned, too.
  void Wait();
  // Whether Wait would return at once.
  bool IsIdle();

 private:
  void Run(const std::stop_token& end);

  const std::function<void(Snapshot&&)> done_;
  const std::function<void()> before_copy_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  bool copying_ = false;
  bool handing_over_ = false;  // After it: `done` runs.
  SnapshotView view_;          // These two are the copier's until it is idle.
  Snapshot snapshot_;
  std::jthread thread_;  // Last: it uses all above. At its end it finishes the copy that runs.
};

// The same at once, here.
Snapshot CopyNow(const SnapshotView& view, TrainState state);

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
  // An error of kind kRefused: fenced. Others: the older checkpoints stand; continue.
  Result<SaveReport> report;
};

class Saver {
 public:
  // The store has claimed its directory. The destructor finishes what is copied, in flight and
  // queued.
  Saver(CheckpointStore& store, SaverOptions options);
  Saver(const Saver&) = delete;
  Saver& operator=(const Saver&) = delete;

  // Whether Save would take one now. Waits for the copy. Only the caller of Save changes that to
  // no.
  bool HasRoom();
  // Copies the state, then saves it: WaitForCopy before anything viewed changes. Waits for the copy
  // before. False: one is queued already, and this one is skipped. `surpasses`: the queued one is
  // dropped unwritten for it.
  bool Save(SnapshotView view, TrainState state, bool surpasses);
  void WaitForCopy() { copier_.WaitForCopy(); }
  // Hands over a copy. False: one is queued already, and the snapshot is untouched (Drain and try
  // again).
  bool Save(Snapshot&& snapshot);
  // Until nothing is copied, in flight or queued.
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
  // Last: they use all above. The watcher ends after the saver, and that after the copier.
  std::jthread watcher_{[this](const std::stop_token& end) { RunWatcher(end); }};
  std::jthread saver_{[this](const std::stop_token& end) { RunSaver(end); }};
  SnapshotCopier copier_{[this](Snapshot&& copy) { CHECK(Save(std::move(copy))); }};
};

}  // namespace ddprun
