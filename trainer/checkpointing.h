// Rank 0's part in checkpoints: which state to start from, when to make the next, what became of
// it.
//
// Decides by itself, so that no two ranks can decide differently: what it chose travels to the
// others as a StartPlan. It claims the directory first: from then on no other process moves what it
// finds. Knows neither tensors nor the training loop; files and their safety are the checkpoint
// library's.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/log.h"
#include "common/result.h"
#include "proto/worker_env.h"
#include "trainer/checkpoint/checkpoint_store.h"
#include "trainer/checkpoint/memory_start.h"
#include "trainer/checkpoint/saver.h"
#include "trainer/checkpoint/snapshot_copier.h"
#include "trainer/options/config.h"
#include "trainer/start_plan.h"

namespace ddprun {

// The newest state that ranks have in memory.
struct Remembered {
  TrainState state;
  std::uint32_t rank = 0;  // That has it.
};

class Checkpointing {
 public:
  using Say = std::function<void(LogLevel level, const std::string& text)>;

  // Touches no disk. Later messages for the user go to `say`.
  Checkpointing(const TrainConfig& config, const WorkerEnv& env,
                const std::string& model_description, Say say);

  // On a thread: claims the directory, and decides where this training continues: from the state in
  // memory where that counts, else from the newest checkpoint. `loaded` becomes the snapshot to
  // copy the tensors from, if there is one. kRefused: another run uses the directory, or another
  // world took over.
  Result<StartPlan> Choose(const TrainState& asked, const std::optional<Remembered>& remembered,
                           std::optional<Snapshot>& loaded);

  // Whether a save is due after `step`.
  bool Due(std::uint64_t step, bool epoch_ended) const;
  // In the background, the copy too: WaitForCopy before anything viewed changes. Never waits for
  // the disk. Skipped, like a bus that is full, while an earlier one still waits; the best one so
  // far takes that one's place instead.
  void Save(SnapshotView view, TrainState state, bool best);
  // Whether it would not be skipped. Waits for the copy.
  bool HasRoom();
  void WaitForCopy();
  // Whether the state of this step may be left in memory: not while it is being saved, and not
  // beyond a best one that is not, without which none counts.
  bool MayRemember(std::uint64_t step) const;
  std::optional<std::uint64_t> handed_over() const { return handed_over_; }
  // Writes this one before it returns; an error if that failed.
  Result<void> SaveNow(Snapshot&& snapshot);
  // This run is done with the directory.
  Result<void> Close();
  // Ends its threads, which may wait for the disk. Nothing is asked of it any more.
  void End();

  // The checkpoint with the best validation; none: there is none.
  Result<std::optional<LoadedCheckpoint>> LoadBest();

  // Says what became of saves. The only error: another world has taken over (kRefused). A failed
  // save is said, and training continues with the older checkpoints.
  Result<void> Poll();

  std::optional<std::uint64_t> last_saved() const { return last_saved_; }

 private:
  bool WrittenByThisRun(const TrainState& state) const;
  // Whether the state counts, and the plan then.
  bool PlanFromMemory(const TrainState& asked, const Remembered& remembered, StartPlan& plan);
  Result<void> Load(const TrainState& asked, StartPlan& plan, std::optional<Snapshot>& loaded);

  const TrainConfig& config_;
  const WorkerEnv& env_;
  const Say say_;
  const Writer writer_;
  CheckpointStore store_;
  std::unique_ptr<Saver> saver_;            // From the claim on: this run is seen to live.
  std::unique_ptr<SnapshotCopier> copier_;  // Once chosen; hands over to the saver.
  std::chrono::steady_clock::time_point last_handed_over_;
  std::optional<std::uint64_t> last_saved_;
  std::optional<std::uint64_t> handed_over_;   // The step of the last one.
  std::optional<std::uint64_t> best_unsaved_;  // The step of a best one that is not saved yet.
  bool save_is_owed_ = false;                  // Begun from memory, and not saved since.
  bool last_failed_ = false;
  bool skipped_ = false;
};

}  // namespace ddprun
