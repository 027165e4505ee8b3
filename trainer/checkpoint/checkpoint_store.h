// A directory of checkpoints with one lineage, written and read so that a crash, a full disk, a
// flipped bit or a world that was replaced never costs more than the steps since the last save.
//
//   ckpt/step-00000100-9f0c55aa01234567/   model.safetensors optimizer.safetensors
//                                          rank-states.safetensors state.json
//   ckpt/fence-17                          who may write, and the lineage (fence_log.h)
//   ckpt/fence-alive                       that the holder still runs (alive_file.h)
//   ckpt/best.json                         the one with the best validation, for people to find:
//                                          what counts is the record, so that each lineage has its
//                                          own and no other one keeps, publishes or removes it
//   ckpt/.tmp-*  .trash-*                  being written; being removed
//
// Save: temporary directory, every file and the directory fsynced, renamed, the parent fsynced,
// then the commit record: that link is the commit point. Load follows the lineage of the newest
// record and takes the first valid checkpoint, never simply the largest step. Of checkpoints
// nothing is ever removed but my own head's ancestors beyond keep_last (never the best one), a best
// one that was surpassed, and what I or an earlier world wrote and could not commit (orphans.h);
// and only after a successful commit.
//
// Refused by the fence is ErrorKind::kRefused, and nothing else is: exit with kExitDoNotRestart.
// Every other error of Save leaves the older checkpoints as they were: training may continue.
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
#include "trainer/checkpoint/checkpoint_files.h"
#include "trainer/checkpoint/fence_log.h"
#include "trainer/checkpoint/file_system.h"
#include "trainer/checkpoint/snapshot.h"

namespace ddprun {

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

  // Rank 0, before Load and Save: makes the directory, claims it, removes what older worlds left
  // half-written. Returns warnings. The pause is at most AliveOptions::watch, or the ten seconds
  // granted to an unordered world's predecessor of the same run to die.
  Result<std::vector<std::string>> Claim(const Writer& writer);

  // After Claim. An error where checkpoints are recorded but none is valid, or the one found is of
  // another model.
  Result<LoadOutcome> Load();

  // The checkpoint that rank 0 chose, for any rank, without a claim.
  Result<LoadedCheckpoint> LoadExactly(const CheckpointRef& ref) const;

  // The one with the best validation of this lineage. None: there is none.
  Result<std::optional<LoadedCheckpoint>> LoadBest() const;

  // After Claim, in the place of Load: saves descend from nothing, and what was committed stays.
  void StartAfresh() {
    lineage_.clear();
    best_.reset();
  }

  // After Claim.
  const Writer& writer() const { return *writer_; }
  // After Claim: what the next checkpoint descends from. None: nothing.
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

  // Every two seconds or so.
  void ShowLife();
  // No longer seen to live: after the fence refused, or at the end.
  void StopShowingLife();

 private:
  ReadOutcome Read(const CheckpointRef& ref) const;
  Result<bool> PredecessorLives(const FenceRecord& newest, const Writer& writer);
  void RemoveLeftovers(const std::vector<std::string>& names, std::vector<std::string>& warnings);
  Result<void> NameUncommitted(std::vector<std::string>& warnings) const;
  Result<std::string> FreeName(std::uint64_t step) const;
  Result<std::uint64_t> Publish(CheckpointFiles& contents, const std::filesystem::path& temporary,
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
