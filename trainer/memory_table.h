// Which rank has which state in memory, as all ranks know it: what each has found goes into a table
// of numbers whose sum over the ranks is everybody's.
//
// Pure. So all ranks see alike which state is the newest, who has it, and whether it must be sent:
// a rank takes its own only where world, step and digest equal those of the one that was chosen.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "trainer/checkpoint/memory_block.h"

namespace ddprun {

// A state in memory, by what makes it the same as another.
struct MemoryKey {
  Term term;
  Generation generation;
  WorldId world;
  std::uint64_t step = 0;
  std::uint64_t content = 0;
  bool operator==(const MemoryKey&) const = default;
};

MemoryKey KeyOf(const MemorySnapshot& snapshot);

struct HeldState {
  MemoryKey key;
  std::uint32_t holder = 0;  // The lowest rank that has it.
  std::uint32_t ranks = 0;   // That have it.
  std::uint64_t starts = 0;  // Worlds that began from it, as the rank says that knows of most.
};

class MemoryTable {
 public:
  static constexpr std::size_t kMostOfARank = 2;

  // The numbers of all ranks, of which this one knows its own.
  MemoryTable(std::uint32_t rank, std::uint32_t ranks, const std::vector<MemorySnapshot>& found);

  // To be summed over the ranks, element by element.
  std::span<double> numbers() { return numbers_; }

  // After that: each state once, the newest first, by (term, generation, step), never by the step
  // alone. Of those that are equal in that, the one that rank 0 has, or the lowest rank.
  std::vector<HeldState> States() const;

 private:
  std::vector<double> numbers_;
};

}  // namespace ddprun
