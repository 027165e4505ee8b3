// What must be true of the checkpoints in one directory, whoever writes there and however late:
// seen from where every record is known in the moment in which it is made.
//
// One lineage: each commit's parent is the head before it. Nobody commits behind a newer world's
// claim, nothing acknowledged leaves the lineage, and who holds the claim finds the head whole.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "common/ids.h"
#include "tests/sim/laws.h"
#include "trainer/checkpoint/fence_log.h"

namespace ddprun::sim {

class HeadLog {
 public:
  explicit HeadLog(Laws& laws) : laws_(laws) {}

  // The true age of a world, whatever its records say.
  void OnWorld(WorldId world, Term term, Generation generation);
  // A record has got its number. One of a number that was taken and freed before is nobody's
  // newest.
  void OnRecord(const FenceRecord& record);
  // A save was reported as done.
  void OnAcknowledged(const CheckpointRef& ref);
  // The machine lost its power: this is what is left. None: no record.
  void OnPowerCut(const std::optional<FenceRecord>& newest);
  // Nothing but what was loaded counts: none is what a directory without a head gives. `failed`:
  // the disk did, so an older one of the lineage may be all that could be read.
  void OnLoaded(WorldId world, const std::optional<CheckpointRef>& loaded, bool failed);
  void OnUnreadable(WorldId world, const std::string& text);

  bool Holds(WorldId world) const { return newest_ && newest_->writer.world_id == world; }
  std::uint64_t commits() const { return commits_; }

 private:
  bool InLineage(const std::string& directory) const;
  std::string Name(WorldId world) const;

  Laws& laws_;
  std::map<WorldId, std::pair<Term, Generation>> ages_;
  std::optional<FenceRecord> newest_;
  std::uint64_t highest_ = 0;
  std::string head_;                            // Empty: none.
  std::map<std::string, std::string> parents_;  // Of every checkpoint that was ever a head.
  std::map<WorldId, std::string> fell_back_;    // To what, by a world whose disk failed.
  std::string acknowledged_;                    // The last one.
  std::uint64_t commits_ = 0;
};

}  // namespace ddprun::sim
