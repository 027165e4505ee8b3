#include "trainer/memory_table.h"

#include <algorithm>
#include <iterator>
#include <tuple>

namespace ddprun {
namespace {

// A double holds 53 bits, so that names of 64 go as two halves.
enum Column {
  kThere,
  kTerm,
  kGeneration,
  kWorld,
  kWorldLow,
  kStep,
  kContent,
  kContentLow,
  kStarts,
  kAll
};

void PutName(double* column, std::uint64_t name) {
  column[0] = static_cast<double>(name >> 32);
  column[1] = static_cast<double>(name & 0xffffffff);
}

std::uint64_t Whole(double number) {
  return static_cast<std::uint64_t>(number);
}

std::uint64_t Name(const double* column) {
  return Whole(column[0]) << 32 | Whole(column[1]);
}

auto Order(const HeldState& state) {
  return std::tuple(state.key.term, state.key.generation, state.key.step);
}

}  // namespace

MemoryKey KeyOf(const MemorySnapshot& snapshot) {
  const TrainState& state = snapshot.snapshot.state;
  return {state.term, state.generation, state.world_id, state.step, snapshot.content};
}

MemoryTable::MemoryTable(std::uint32_t rank, std::uint32_t ranks,
                         const std::vector<MemorySnapshot>& found)
    : numbers_(std::size_t{ranks} * kMostOfARank * kAll) {
  double* row = numbers_.data() + std::size_t{rank} * kMostOfARank * kAll;
  for (std::size_t i = 0; i < std::min(found.size(), kMostOfARank); ++i, row += kAll) {
    const MemoryKey key = KeyOf(found[i]);
    row[kThere] = 1;
    row[kTerm] = static_cast<double>(key.term.value);
    row[kGeneration] = static_cast<double>(key.generation.value);
    PutName(row + kWorld, key.world.value);
    row[kStep] = static_cast<double>(key.step);
    PutName(row + kContent, key.content);
    row[kStarts] = static_cast<double>(found[i].starts);
  }
}

std::vector<HeldState> MemoryTable::States() const {
  std::vector<HeldState> states;
  std::vector<std::size_t> last;  // Who was counted for each: a rank is one, whatever it says.
  for (std::size_t at = 0; at < numbers_.size(); at += kAll) {
    const double* const row = numbers_.data() + at;
    if (row[kThere] != 1) {
      continue;
    }
    const MemoryKey key{Term{Whole(row[kTerm])}, Generation{Whole(row[kGeneration])},
                        WorldId{Name(row + kWorld)}, Whole(row[kStep]), Name(row + kContent)};
    const std::size_t rank = at / (kMostOfARank * kAll);
    auto same = std::find_if(states.begin(), states.end(),
                             [&](const HeldState& state) { return state.key == key; });
    if (same == states.end()) {
      states.push_back({key, static_cast<std::uint32_t>(rank)});
      last.push_back(~std::size_t{0});
      same = std::prev(states.end());
    }
    std::size_t& counted = last[static_cast<std::size_t>(same - states.begin())];
    same->ranks += counted != rank ? 1 : 0;
    counted = rank;
    same->starts = std::max(same->starts, Whole(row[kStarts]));
  }
  std::stable_sort(states.begin(), states.end(),
                   [](const HeldState& a, const HeldState& b) { return Order(b) < Order(a); });
  return states;
}

}  // namespace ddprun
