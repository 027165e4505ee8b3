#include "tests/sim/head_log.h"

namespace ddprun::sim {
namespace {

std::string FrontOf(const FenceRecord& record) {
  return record.lineage.empty() ? "" : record.lineage.front().directory;
}

}  // namespace

void HeadLog::OnWorld(WorldId world, Term term, Generation generation) {
  ages_[world] = {term, generation};
}

std::string HeadLog::Name(WorldId world) const {
  const auto age = ages_.find(world);
  return age == ages_.end() ? "an unknown world"
                            : "the world of term " + std::to_string(age->second.first.value) +
                                  ", generation " + std::to_string(age->second.second.value);
}

bool HeadLog::InLineage(const std::string& directory) const {
  std::string at = head_;
  while (!at.empty() && at != directory) {
    const auto parent = parents_.find(at);
    at = parent == parents_.end() ? "" : parent->second;
  }
  return at == directory;
}

void HeadLog::OnRecord(const FenceRecord& record) {
  if (record.number < highest_) {
    return;
  }
  highest_ = record.number;
  const WorldId world = record.writer.world_id;
  const bool claims = record.kind == RecordKind::kClaim;
  if (newest_ && claims && ages_[world] < ages_[newest_->writer.world_id]) {
    laws_.Break(Name(world) + " claims the checkpoints after " + Name(newest_->writer.world_id));
  }
  if (!claims && !Holds(world)) {
    laws_.Break(Name(world) + " moves the head of the checkpoints, which is not its to move");
  }
  if (record.kind == RecordKind::kCommit) {
    const std::string parent = record.lineage.size() > 1 ? record.lineage[1].directory : "";
    const auto fallback = fell_back_.find(world);
    const bool fell_back = fallback != fell_back_.end() && fallback->second == parent;
    acknowledged_ = fell_back ? "" : acknowledged_;  // Given up, and said so.
    if (parent != head_ && !fell_back) {
      laws_.Break("the head moves from '" + head_ + "' to '" + FrontOf(record) +
                  "', which does not descend from it");
    }
    head_ = FrontOf(record);
    parents_[head_] = parent;
    ++commits_;
  } else if (FrontOf(record) != head_) {
    laws_.Break("a claim or close of " + Name(world) + " moves the head from '" + head_ + "' to '" +
                FrontOf(record) + "'");
  }
  newest_ = record;
}

void HeadLog::OnAcknowledged(const CheckpointRef& ref) {
  acknowledged_ = ref.directory;
  if (!InLineage(ref.directory)) {
    laws_.Break("'" + ref.directory + "' was acknowledged, but is not in the lineage of the head");
  }
}

void HeadLog::OnPowerCut(const std::optional<FenceRecord>& newest) {
  newest_ = newest;
  highest_ = newest ? newest->number : 0;
  head_ = newest ? FrontOf(*newest) : "";
  if (!acknowledged_.empty() && !InLineage(acknowledged_)) {
    laws_.Break("'" + acknowledged_ + "' was acknowledged, and a power cut took it");
  }
}

void HeadLog::OnLoaded(WorldId world, const std::optional<CheckpointRef>& loaded, bool failed) {
  const std::string directory = loaded ? loaded->directory : "";
  if (failed && loaded && InLineage(directory)) {
    fell_back_[world] = directory;
  } else if (Holds(world) && directory != head_) {
    laws_.Break(Name(world) + " resumes from '" + directory + "', but the head is '" + head_ + "'");
  }
}

void HeadLog::OnUnreadable(WorldId world, const std::string& text) {
  if (Holds(world)) {
    laws_.Break(Name(world) + " holds the checkpoints, but cannot read their head: " + text);
  }
}

}  // namespace ddprun::sim
