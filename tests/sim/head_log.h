// The conditions on the checkpoints in one directory, for any writer and however late: seen from
// where every record is known in the moment in which it is made.
//
// One lineage: each commit's parent is the head before it. No training commits behind a newer
// world's claim, nothing acknowledged leaves the lineage, and the holder of the claim finds the
// head whole.
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
  void OnWorld(WorldId world, Term term, Generation generation) {
    ages_[world] = {term, generation};
  }
  // A record has got its number. One of a number that was taken and freed before is not the newest.
  void OnRecord(const FenceRecord& record) {
    if (record.number < highest_) {
      return;
    }
    highest_ = record.number;
    const WorldId world = record.writer.world_id;
    const bool claims = record.kind == RecordKind::kClaim;
    if (newest_ && claims && ages_[world] < ages_[newest_->writer.world_id]) {
      laws_.Break(Name(world), " claims the checkpoints after ", Name(newest_->writer.world_id));
    }
    laws_.BreakIf(!claims && !Holds(world), Name(world),
                  " moves the head of the checkpoints, which is not its to move");
    if (record.kind == RecordKind::kCommit) {
      const std::string parent = record.lineage.size() > 1 ? record.lineage[1].directory : "";
      const auto fallback = fell_back_.find(world);
      const bool fell_back = fallback != fell_back_.end() && fallback->second == parent;
      acknowledged_ = fell_back ? "" : acknowledged_;  // Given up, and said so.
      laws_.BreakIf(parent != head_ && !fell_back, "the head moves from '", head_, "' to '",
                    FrontOf(record), "', which does not descend from it");
      head_ = FrontOf(record);
      parents_[head_] = parent;
    } else if (FrontOf(record) != head_) {
      laws_.Break("a claim or close of ", Name(world), " moves the head from '", head_, "' to '",
                  FrontOf(record), "'");
    }
    newest_ = record;
  }
  // A save was reported as done.
  void OnAcknowledged(const CheckpointRef& ref) {
    acknowledged_ = ref.directory;
    laws_.BreakIf(!InLineage(ref.directory), "'", ref.directory,
                  "' was acknowledged, but is not in the lineage of the head");
  }
  // The machine lost its power: this is what is left. None: no record.
  void OnPowerCut(const std::optional<FenceRecord>& newest) {
    newest_ = newest;
    highest_ = newest ? newest->number : 0;
    head_ = newest ? FrontOf(*newest) : "";
    laws_.BreakIf(!acknowledged_.empty() && !InLineage(acknowledged_), "'", acknowledged_,
                  "' was acknowledged, and a power cut took it");
  }
  // Nothing but what was loaded counts: none is what a directory without a head gives. `failed`:
  // the disk did, so an older one of the lineage may be all that could be read.
  void OnLoaded(WorldId world, const std::optional<CheckpointRef>& loaded, bool failed) {
    const std::string directory = loaded ? loaded->directory : "";
    if (failed && loaded && InLineage(directory)) {
      fell_back_[world] = directory;
    } else if (Holds(world) && directory != head_) {
      laws_.Break(Name(world), " resumes from '", directory, "', but the head is '", head_, "'");
    }
  }
  void OnUnreadable(WorldId world, const std::string& text) {
    laws_.BreakIf(Holds(world), Name(world),
                  " holds the checkpoints, but cannot read their head: ", text);
  }

  bool Holds(WorldId world) const { return newest_ && newest_->writer.world_id == world; }

 private:
  bool InLineage(const std::string& directory) const {
    std::string at = head_;
    while (!at.empty() && at != directory) {
      const auto parent = parents_.find(at);
      at = parent == parents_.end() ? "" : parent->second;
    }
    return at == directory;
  }
  std::string Name(WorldId world) const {
    const auto age = ages_.find(world);
    return age == ages_.end() ? "an unknown world"
                              : Words("the world of term ", age->second.first, ", generation ",
                                      age->second.second);
  }

  static std::string FrontOf(const FenceRecord& record) {
    return record.lineage.empty() ? "" : record.lineage.front().directory;
  }

  Laws& laws_;
  std::map<WorldId, std::pair<Term, Generation>> ages_;
  std::optional<FenceRecord> newest_;
  std::uint64_t highest_ = 0;
  std::string head_;                            // Empty: none.
  std::map<std::string, std::string> parents_;  // Of every checkpoint that was ever a head.
  std::map<WorldId, std::string> fell_back_;    // To what, by a world whose disk failed.
  std::string acknowledged_;                    // The last one.
};

}  // namespace ddprun::sim
