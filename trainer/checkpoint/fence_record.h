// A record of the fence log (fence_log.h) as a value and as text: who wrote it, and the lineage of
// checkpoints that it names. The text ends in its own digest, and is read strictly.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/ids.h"
#include "common/result.h"

namespace ddprun {

// The writer. Made by MakeWriter.
struct Writer {
  RunId run_id;
  Term term;
  Generation generation;
  WorldId world_id;     // Never 0.
  bool ordered = true;  // False: no launcher orders this world; its world id was drawn at random.
  bool operator==(const Writer&) const = default;
};

// World id 0 becomes a random one, and the writer unordered.
Writer MakeWriter(const RunId& run_id, Term term, Generation generation, WorldId world_id);

std::string Describe(const Writer& writer);

// A checkpoint by name, and the digest of its state.json, which holds those of its other files.
struct CheckpointRef {
  std::string directory;  // "step-00000100-9f0c55aa01234567", beside the fence records
  std::uint64_t digest = 0;
  bool operator==(const CheckpointRef&) const = default;
};

// The step and the world in the name of a checkpoint's directory.
struct MadeBy {
  std::uint64_t step = 0;
  WorldId world;
};
std::string CheckpointName(const MadeBy& made);  // "step-00000100-9f0c55aa01234567"
// None: a name of another form. That keeps a forged record from pointing elsewhere.
std::optional<MadeBy> WhoMade(std::string_view name);
inline bool IsCheckpointName(std::string_view name) {
  return WhoMade(name).has_value();
}

enum class RecordKind { kClaim, kCommit, kClose };

struct FenceRecord {
  std::uint64_t number = 0;
  RecordKind kind = RecordKind::kClaim;
  Writer writer;
  // The head first, then its ancestors. Empty: no checkpoint yet. The ancestors stand here too so
  // that a head whose state.json is broken does not hide its parent.
  std::vector<CheckpointRef> lineage;
  // The one of this lineage that had the best validation; kept and published by it alone.
  std::optional<CheckpointRef> best;
  bool operator==(const FenceRecord&) const = default;
};

inline constexpr std::size_t kMaxLineage = 64;

std::string ToText(const FenceRecord& record);  // Without the number, which is the file's name.
Result<FenceRecord> FenceRecordFromText(std::string_view text, std::uint64_t number,
                                        std::string_view name);

}  // namespace ddprun
