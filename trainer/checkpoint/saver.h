// Writes checkpoints on a thread of its own, so that the training loop waits for the copy only.
//
// One save in flight and at most one queued; a queued one is never replaced. The same thread shows
// that this world lives (fence-alive) and asks the fence once a second whether another world has
// taken over. The store belongs to this thread from construction to destruction. The methods are
// for one other thread, the training loop; none but Drain and Close waits for the disk.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "trainer/checkpoint/checkpoint_store.h"

namespace ddprun {

struct SaverOptions {
  std::chrono::milliseconds show_life{2000};
  std::chrono::milliseconds check_fence{1000};
};

struct SaveResult {
  std::uint64_t step = 0;
  CheckpointRef ref;
  std::uint64_t bytes = 0;
  double seconds = 0;
  std::optional<Error> error;  // kRefused: fenced. Others: the older checkpoints stand; go on.
  std::vector<std::string> warnings;
};

class Saver {
 public:
  // The store has claimed its directory.
  Saver(CheckpointStore& store, SaverOptions options);
  // Finishes what is in flight and queued.
  ~Saver();
  Saver(const Saver&) = delete;
  Saver& operator=(const Saver&) = delete;

  // Hands over. False: one is queued already, and the snapshot is untouched (Drain and try again,
  // or skip this one).
  bool Save(Snapshot&& snapshot);
  // Until nothing is in flight or queued.
  void Drain();
  // Drains, then records that this run is done with the directory.
  Result<void> Close();

  // Each finished save once, oldest first.
  std::vector<SaveResult> TakeResults();
  // Why the fence refused; none while it has not.
  std::optional<Error> fenced() const;

 private:
  void Run();
  void SaveOne(std::unique_lock<std::mutex>& lock);
  void Tend(std::unique_lock<std::mutex>& lock);
  void NoteFenced(const Error& error);

  CheckpointStore& store_;
  const SaverOptions options_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Snapshot> queued_;
  bool saving_ = false;
  bool closing_ = false;
  bool stopping_ = false;
  std::optional<Result<void>> closed_;
  std::optional<Error> fenced_;
  std::vector<SaveResult> results_;
  std::thread thread_;  // Last: it uses all above.
};

}  // namespace ddprun
