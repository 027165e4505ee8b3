#include "trainer/checkpoint/best_record.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "common/json.h"
#include "trainer/checkpoint/json_fields.h"

namespace ddprun {
namespace fs = std::filesystem;
namespace {

constexpr const char* kBest = "best.json";
constexpr std::size_t kMostBytes = 1 << 16;

}  // namespace

Result<std::optional<CheckpointRef>> ReadBest(FileSystem& files, const fs::path& directory) {
  const fs::path path = directory / kBest;
  const Result<std::string> text = files.Read(path, kMostBytes);
  if (!text && text.error().kind == ErrorKind::kNotFound) {
    return std::optional<CheckpointRef>();
  }
  if (!text) {
    return text.error();
  }
  const nlohmann::json in = ParseJson(*text);
  if (!in.is_object()) {
    return Invalid("not a JSON object", path.native());
  }
  JsonFields fields(in, path.native());
  const CheckpointRef best{fields.Text("directory"), fields.HexText("digest")};
  if (fields.problem()) {
    return *fields.problem();
  }
  if (!IsCheckpointName(best.directory)) {
    return Invalid("this names no checkpoint", path.native());
  }
  return std::optional(best);
}

bool Descends(const std::vector<CheckpointRef>& lineage, const CheckpointRef& ref,
              const std::vector<FenceRecord>& before) {
  std::vector<CheckpointRef> known = lineage;
  const auto knows = [&](const CheckpointRef& one) {
    return std::find(known.begin(), known.end(), one) != known.end();
  };
  for (const FenceRecord& record : before) {  // The newest first: ancestors' records come later.
    if (!record.lineage.empty() && knows(record.lineage.front())) {
      known.insert(known.end(), record.lineage.begin(), record.lineage.end());
    }
  }
  return knows(ref);
}

Result<void> WriteBest(FileSystem& files, const fs::path& directory, const CheckpointRef& best,
                       WorldId writer) {
  const fs::path temporary = directory / (std::string(".tmp-best-") + Hex(writer.value));
  const nlohmann::json out = {{"directory", best.directory}, {"digest", Hex(best.digest)}};
  RETURN_IF_ERROR(files.Write(temporary, {out.dump() + "\n"}));
  RETURN_IF_ERROR(files.Sync(temporary));
  RETURN_IF_ERROR(files.Rename(temporary, directory / kBest));
  return files.Sync(directory);
}

}  // namespace ddprun
