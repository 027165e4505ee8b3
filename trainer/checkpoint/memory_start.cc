#include "trainer/checkpoint/memory_start.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <tuple>

#include "trainer/checkpoint/digest.h"

namespace ddprun {
namespace {

auto Order(const PathWorld& on) {
  return std::tuple(on.term.value, on.generation.value);
}

// On the disk, and known there as the best.
bool HasItsBest(const BlockFacts& facts, const DiskHead& disk) {
  const std::optional<MadeBy> made = disk.best ? WhoMade(*disk.best) : std::nullopt;
  return !facts.best || (made && made->step == *facts.best);
}

bool IsAncestor(const CheckpointRef& head, const std::vector<PathWorld>& path) {
  const std::optional<MadeBy> made = WhoMade(head);
  return made && std::any_of(path.begin(), path.end(), [&](const PathWorld& on) {
           return on.world == made->world && made->step <= on.last_step;
         });
}

}  // namespace

std::optional<MadeBy> WhoMade(const CheckpointRef& ref) {
  if (!IsCheckpointName(ref.directory)) {
    return std::nullopt;
  }
  const std::string_view name = ref.directory;
  const std::size_t first = name.find('-') + 1;
  const std::size_t dash = name.find('-', first);
  MadeBy made;
  std::from_chars(name.data() + first, name.data() + dash, made.step);
  made.world.value = ParseHex(name.substr(dash + 1, 16)).value_or(0);
  return made;
}

std::vector<PathWorld> PathFrom(const BlockFacts& facts, const TrainState& state) {
  std::vector<PathWorld> path = facts.path;
  path.push_back({state.term, state.generation, state.world_id, state.step});
  return path;
}

bool OwesBest(const BlockFacts& facts, const TrainState& state, const DiskHead& disk) {
  return facts.best == state.step && !HasItsBest(facts, disk);
}

std::optional<std::string> WhyNotFromMemory(const BlockFacts& facts, const TrainState& state,
                                            const Writer& writer, const std::string& directory,
                                            const DiskHead& disk) {
  if (state.run_id != writer.run_id || facts.directory != directory) {
    return "it is of another run or directory";
  }
  const std::vector<PathWorld> path = PathFrom(facts, state);
  if (Order(path.back()) >= std::tuple(writer.term.value, writer.generation.value)) {
    return "it is of no earlier world";
  }
  if (path.size() > kMostPath) {
    return "too many worlds in a row have not claimed the checkpoints";
  }
  if (disk.head != facts.base && !(disk.head && IsAncestor(*disk.head, path))) {
    return "the checkpoints have gone on without it";
  }
  if (!HasItsBest(facts, disk) && !OwesBest(facts, state, disk)) {
    return "the best state since is not saved";
  }
  return std::nullopt;
}

}  // namespace ddprun
