// Rank 0's part in checkpoints: which one to start from, when to make the next, what became of it.
//
// Decides by itself, so that no two ranks can decide differently: what it chose travels to the
// others as a StartPlan. Knows neither tensors nor the training loop; files and their safety are
// the checkpoint library's.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "common/log.h"
#include "common/result.h"
#include "proto/worker_env.h"
#include "trainer/checkpoint/checkpoint_store.h"
#include "trainer/checkpoint/saver.h"
#include "trainer/checkpoint/snapshot_copier.h"
#include "trainer/memory_snapshots.h"
#include "trainer/options/config.h"
#include "trainer/start_plan.h"

namespace ddprun {

class Checkpointing {
 public:
  using Say = std::function<void(LogLevel level, const std::string& text)>;

  // Claims the directory. kRefused: another run uses it, or another world took over. What a person
  // should know later on goes to `say`.
  static Result<std::unique_ptr<Checkpointing>> Open(const TrainConfig& config,
                                                     const WorkerEnv& env,
                                                     const std::string& model_description, Say say);

  // Once. `loaded` becomes the snapshot to copy the tensors from, if there is one.
  Result<StartPlan> ChooseStart(const TrainState& asked, std::optional<Snapshot>& loaded);

  // After ChooseStart from memory: a save that was due came to nothing.
  bool SaveIsOwed() const { return save_is_owed_; }

  // Whether a save is due after `step`.
  bool Due(std::uint64_t step, bool epoch_ended) const;
  // In the background, the copy too: WaitForCopy before anything viewed changes. Never waits for
  // the disk. Skipped, like a bus that is full, while an earlier one still waits; the best one so
  // far takes that one's place instead.
  void Save(SnapshotView view, TrainState state, bool best);
  // Whether it would not be skipped. Waits for the copy.
  bool HasRoom();
  void WaitForCopy();
  // The same for the memory that outlives this process; not at a step that is being saved.
  bool IsToRemember(std::uint64_t step) const;
  void Remember(SnapshotView view, TrainState state);
  // Writes this one before it returns; an error if that failed.
  Result<void> SaveNow(Snapshot&& snapshot);
  // This run is done with the directory.
  Result<void> Close();
  // Ends its threads, which may wait for the disk. Nothing is asked of it any more.
  void End();

  // The checkpoint with the best validation; none: there is none.
  Result<std::optional<LoadedCheckpoint>> LoadBest();

  // Says what became of saves. The only error: another world has taken over (kRefused). A failed
  // save is said, and training goes on with the older checkpoints.
  Result<void> Poll();

  std::optional<std::uint64_t> last_saved() const { return last_saved_; }

 private:
  Checkpointing(const TrainConfig& config, const WorkerEnv& env,
                const std::string& model_description, Say say);
  bool WrittenByThisRun(const TrainState& state) const;
  bool ChooseFromMemory(const TrainState& asked, StartPlan& plan, std::optional<Snapshot>& loaded);
  Result<void> ChooseFromDisk(const TrainState& asked, StartPlan& plan,
                              std::optional<Snapshot>& loaded);

  const TrainConfig& config_;
  const WorkerEnv& env_;
  const Say say_;
  const Writer writer_;
  CheckpointStore store_;
  std::unique_ptr<Saver> saver_;             // From the claim on: this run is seen to live.
  std::unique_ptr<MemorySnapshots> memory_;  // Or none.
  std::optional<CheckpointRef> base_;        // What this world began from.
  std::unique_ptr<SnapshotCopier> copier_;   // After ChooseStart; hands over to the saver.
  std::chrono::steady_clock::time_point last_handed_over_;
  std::optional<std::uint64_t> last_saved_;
  std::optional<std::uint64_t> handed_over_;  // The step of the last one.
  bool save_is_owed_ = false;
  bool last_failed_ = false;
  bool skipped_ = false;
};

}  // namespace ddprun
