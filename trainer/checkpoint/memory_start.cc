#include "trainer/checkpoint/memory_start.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <tuple>

#include "trainer/checkpoint/digest.h"

namespace ddprun {
namespace {

auto Order(const TrainState& state) {
  return std::tuple(state.term.value, state.generation.value, state.step);
}

bool HasItsBest(const BlockFacts& facts, const MemoryClaim& claim) {
  const std::optional<MadeBy> made = claim.best ? WhoMade(*claim.best) : std::nullopt;
  return !facts.best || (made && made->step == *facts.best);
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

std::optional<std::string> WhyNotFromMemory(const BlockFacts& facts, const TrainState& state,
                                            const MemoryClaim& claim) {
  if (state.run_id != claim.writer.run_id || facts.directory != claim.directory) {
    return "it is of another run or directory";
  }
  if (std::tuple(state.term.value, state.generation.value) >=
      std::tuple(claim.writer.term.value, claim.writer.generation.value)) {
    return "it is of no earlier world";
  }
  const std::optional<MadeBy> made = claim.head ? WhoMade(*claim.head) : std::nullopt;
  const bool own = made && made->world == state.world_id && made->step <= state.step;
  if (claim.head != facts.base && !own) {
    return "the checkpoints have gone on without it";
  }
  if (!HasItsBest(facts, claim)) {
    return "the best state since is not saved";
  }
  return std::nullopt;
}

const MemorySnapshot* NewestOf(const std::vector<MemorySnapshot>& found) {
  const auto newest =
      std::max_element(found.begin(), found.end(), [](const auto& a, const auto& b) {
        return Order(a.snapshot.state) < Order(b.snapshot.state);
      });
  return newest == found.end() ? nullptr : &*newest;
}

}  // namespace ddprun
