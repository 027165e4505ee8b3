// Copies a training's tensors on a thread beside the next forward and backward, so that the loop
// waits for a checkpoint's copy only as far as it outlasts them.
//
// The contract: between Begin and the return of WaitForCopy nothing changes the viewed tensors.
// Code that changes them calls it first; it costs nothing when no copy runs. Begin itself copies
// what a forward already changes, and the state; of tensors that are still on their way here
// nothing. A copy is made into the memory of a spent snapshot of the same layout where there is
// one: fresh memory costs several times the copying.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>
#include <vector>

#include "trainer/checkpoint/snapshot.h"

namespace ddprun {

// A tensor where it lives: host memory, contiguous.
struct TensorView {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<std::int64_t> shape;
  std::string_view bytes;
  bool forward_changes_it = false;  // Such as the statistics of a batch norm.
};

struct SnapshotView {
  std::vector<TensorView> model;
  std::vector<TensorView> optimizer;
  // Called before the first byte is read, by the thread that reads; returns when all are there.
  // Empty: they are.
  std::function<void()> wait;
};

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

}  // namespace ddprun
