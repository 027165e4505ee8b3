#include "trainer/checkpoint/memory_start.h"

#include <algorithm>
#include <tuple>

namespace ddprun {

std::optional<std::string> WhyNotFromMemory(const TrainState& state,
                                            std::optional<std::uint64_t> best, const Writer& writer,
                                            const DiskHead& disk) {
  if (state.run_id != writer.run_id) {
    return "it belongs to another run";
  }
  if (std::tuple(state.term, state.generation) >= std::tuple(writer.term, writer.generation)) {
    return "it is not from an earlier world";
  }
  const auto made = [](const std::optional<CheckpointRef>& ref) {
    return ref ? WhoMade(ref->directory).value_or(MadeBy{}) : MadeBy{};
  };
  const bool is_parent = state.parent == (disk.head ? disk.head->directory : "");
  const MadeBy head = made(disk.head);
  if (!is_parent && (head.world != state.world_id || head.step > state.step)) {
    return "the checkpoints are newer";
  }
  if (best && (!disk.best || made(disk.best).step != *best)) {
    return "the best state since then is not saved";
  }
  return std::nullopt;
}

// Exact: a term, a generation and a step are smaller than a double's 53 bits.
void PutAge(const TrainState& state, std::span<double, kAgeNumbers> numbers) {
  numbers[0] = 1;
  numbers[1] = static_cast<double>(state.term.value);
  numbers[2] = static_cast<double>(state.generation.value);
  numbers[3] = static_cast<double>(state.step);
}

std::optional<std::uint32_t> NewestOf(std::span<const double> numbers) {
  std::optional<std::uint32_t> newest;
  std::span<const double> best;
  for (std::size_t at = 0; at < numbers.size(); at += kAgeNumbers) {
    const std::span<const double> age = numbers.subspan(at, kAgeNumbers);
    if (age[0] == 1 && std::ranges::lexicographical_compare(best, age)) {
      best = age;
      newest = static_cast<std::uint32_t>(at / kAgeNumbers);
    }
  }
  return newest;
}

}  // namespace ddprun
