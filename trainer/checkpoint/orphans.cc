#include "trainer/checkpoint/orphans.h"

#include <string_view>

#include "trainer/checkpoint/digest.h"

namespace ddprun {
namespace {

constexpr std::size_t kWorldDigits = 16;

// "step-00000100-9f0c55aa01234567.2": of which world.
std::string WorldOf(const std::string& name) {
  return name.substr(name.find('-', std::string_view("step-").size()) + 1, kWorldDigits);
}

}  // namespace

std::set<std::string> Orphans(const std::vector<std::string>& names, const FenceRecord& claim,
                              const std::vector<FenceRecord>& before) {
  std::set<std::string> worlds;
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
    worlds.insert(Hex(record.writer.world_id.value));
  }
  worlds.erase(Hex(claim.writer.world_id.value));  // Can commit yet.
  std::set<std::string> orphans;
  for (const std::string& name : names) {
    if (IsCheckpointName(name) && worlds.contains(WorldOf(name)) && !named.contains(name)) {
      orphans.insert(name);
    }
  }
  return orphans;
}

}  // namespace ddprun
