// A directory of checkpoints with one lineage, written and read so that a crash, a full disk, a
// flipped bit or a world that was replaced never costs more than the steps since the last save.
//
//   ckpt/step-00000100-9f0c55aa01234567/   model.safetensors optimizer.safetensors
//                                          rank-states.safetensors state.json
//   ckpt/fence-17                          who may write, and the lineage (fence_log.h)
//   ckpt/fence-alive                       that the holder still runs (alive_file.h)
//   ckpt/best.json                         the one with the best validation, for people. ddprun
//                                          itself reads it from the record, so that each lineage
//                                          has its own
//   ckpt/.tmp-*  .trash-*                  being written; being removed
//
// How the files of a checkpoint vouch for each other:
//
//   the commit record -> state.json (its digest) -> every other file (size and digest)
//
// Save: temporary directory, every file and the directory fsynced, renamed, the parent fsynced,
// then the commit record: that link is the commit point. Load follows the lineage of the newest
// record and takes the first valid checkpoint, never simply the largest step. Checkpoints are
// removed only after a successful commit: ancestors of this world's head beyond keep_last (never
// the best one), a former best one, and files that this or an earlier world could not commit
// (orphans.h).
//
// ErrorKind::kRefused means that the fence refuses, and nothing else: exit with kExitDoNotRestart.
// Every other error of Save leaves the older checkpoints as they were, so training may continue.
// One thread at a time; CheckFence, ShowLife and StopShowingLife may be called by one other thread
// after Claim.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "trainer/checkpoint/alive_file.h"
#include "trainer/checkpoint/fence_log.h"
#include "trainer/checkpoint/fence_record.h"
#include "trainer/checkpoint/file_system.h"
#include "trainer/checkpoint/snapshot.h"

namespace ddprun {

struct CheckpointConfig {
  // The directory of the checkpoints: two trainings in one refuse each other.
  std::filesystem::path directory;
  // At least 1, at most kMaxLineage / 2: few leave no older checkpoint where the newest is damaged.
  std::size_t keep_last = 3;
  // The model's name: a checkpoint of another one is an error, and nothing is deleted.
  std::string model;
  // The model's arguments: a checkpoint of other ones is an error, and nothing is deleted.
  std::string model_description;
  // How a run that still writes to the directory is found.
  AliveOptions alive;
};

struct LoadedCheckpoint {
  Snapshot snapshot;
  CheckpointRef ref;
};

struct LoadOutcome {
  std::optional<LoadedCheckpoint> checkpoint;  // None: there is none yet, start afresh.
  std::vector<std::string> warnings;           // Such as "is broken (...), falling back to ...".
};

struct SaveReport {
  CheckpointRef ref;
  std::vector<std::string> warnings;
};

class CheckpointStore {
 public:
  CheckpointStore(FileSystem& files, CheckpointConfig config);

  // Called by rank 0, before Load and Save: makes the directory, claims it, and removes files that
  // older worlds left half-written. Returns warnings. It waits for AliveOptions::watch at most; for
  // ten seconds if an earlier start of the same run may still have to end.
  Result<std::vector<std::string>> Claim(const Writer& writer);

  // After Claim: loads the newest valid checkpoint. An error if checkpoints are recorded but none
  // is valid, or if the one found is of another model.
  Result<LoadOutcome> Load();

  // Loads the checkpoint that rank 0 chose; for any rank, without a claim.
  Result<LoadedCheckpoint> LoadExactly(const CheckpointRef& ref) const;

  // The one with the best validation of this lineage. None: there is none.
  Result<std::optional<LoadedCheckpoint>> LoadBest() const;

  // After Claim, instead of Load: the next checkpoint has no ancestor, and older ones stay.
  void StartAfresh() {
    lineage_.clear();
    best_.reset();
  }

  // After Claim.
  const Writer& writer() const { return *writer_; }
  // After Claim: the parent of the next checkpoint. None: it has no ancestor.
  std::optional<CheckpointRef> head() const {
    return lineage_.empty() ? std::nullopt : std::optional(lineage_.front());
  }
  // Of this lineage.
  const std::optional<CheckpointRef>& best() const { return best_; }

  // After Claim.
  Result<SaveReport> Save(const Snapshot& snapshot);

  // No more saves: another run may take the directory at once.
  Result<void> Close();

  // kRefused: another world has taken over. Other kinds: the file system failed.
  Result<void> CheckFence() const;

  // Shows other runs that this one lives. Call it every SaverOptions::show_life.
  void ShowLife();
  // Ends that, after the fence refused, or at the end.
  void StopShowingLife();

 private:
  class Contents;

  // `other_model`: true where it is whole, but not for this program.
  Result<LoadedCheckpoint> Read(const CheckpointRef& ref, bool& other_model) const;
  Result<LoadedCheckpoint> ReadOnce(const CheckpointRef& ref, bool& other_model) const;
  Result<bool> PredecessorLives(const FenceRecord& newest, const Writer& writer);
  void RemoveLeftovers(const std::vector<std::string>& names, std::vector<std::string>& warnings);
  Result<void> NameUncommitted(std::vector<std::string>& warnings) const;
  Result<std::string> FreeName(std::uint64_t step) const;
  Result<std::uint64_t> Publish(Contents& contents, const std::filesystem::path& temporary,
                                const std::filesystem::path& final_path);
  void SetBest(const std::optional<CheckpointRef>& best);
  Result<void> WriteBest() const;
  void TellBest(std::vector<std::string>& warnings);
  bool IsKept(const std::string& name) const;
  void Prune(std::vector<std::string>& warnings);
  std::set<std::string> Doomed(const std::vector<std::string>& names);
  Error WithSpace(Error error, std::uint64_t wanted) const;

  FileSystem& files_;
  CheckpointConfig config_;
  FenceLog fence_;
  AliveFile alive_;
  std::optional<Writer> writer_;        // Set by Claim.
  std::vector<CheckpointRef> lineage_;  // The ancestors of the next checkpoint, nearest first.
  std::optional<CheckpointRef> best_;   // Of this lineage.
  std::string surpassed_;               // Once the best; to be removed. Empty: none.
  std::optional<FenceRecord> claim_;    // Until its predecessors' orphans are removed.
  std::uint64_t last_record_ = 0;       // My newest fence record, as far as I know.
};

}  // namespace ddprun
