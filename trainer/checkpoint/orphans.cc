#include "trainer/checkpoint/orphans.h"

#include <optional>

namespace ddprun {

std::set<std::string> Orphans(const std::vector<std::string>& names, const FenceRecord& claim,
                              const std::vector<FenceRecord>& before) {
  std::set<WorldId> worlds;
  std::set<std::string> named;
  const auto note = [&](const FenceRecord& record) {
    for (const CheckpointRef& ref : record.lineage) {
      named.insert(ref.directory);
    }
    if (record.best) {
      named.insert(record.best->directory);
    }
  };
  note(claim);
  for (const FenceRecord& record : before) {
    note(record);
    worlds.insert(record.writer.world_id);
  }
  worlds.erase(claim.writer.world_id);  // Can commit yet.
  std::set<std::string> orphans;
  for (const std::string& name : names) {
    const std::optional<MadeBy> made = WhoMade(name);
    if (made && worlds.contains(made->world) && !named.contains(name)) {
      orphans.insert(name);
    }
  }
  return orphans;
}

}  // namespace ddprun
