// Decides which samples make up each step, whatever the world size.
//
// The order of an epoch is a permutation of [0, size) keyed by (seed, epoch) and computed one
// position at a time, so any position is reached in O(1) and nothing is stored. Progress is a
// cursor that counts samples of the whole world; the global batch at a cursor is dealt out to the
// ranks like cards. A run that continues with another number of ranks therefore uses every sample
// of the epoch exactly once. Pure: no global random state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ddprun {

// A Feistel network over the smallest 4^k >= size, walked until it lands inside the domain
// (J. Black, P. Rogaway: Ciphers with Arbitrary Finite Domains, CT-RSA 2002). The round function
// is random.h's.
class Permutation {
 public:
  Permutation(std::uint64_t size, std::uint64_t seed, std::uint64_t epoch);

  // position < size; the result is too, and no two positions share it.
  std::uint64_t At(std::uint64_t position) const;

 private:
  static constexpr int kRounds = 6;

  std::uint64_t Encrypt(std::uint64_t value) const;

  std::uint64_t size_;
  unsigned half_bits_;
  std::uint64_t half_mask_;
  std::uint64_t round_keys_[kRounds];
};

struct Cursor {
  std::uint64_t epoch = 0;     // From 0.
  std::uint64_t consumed = 0;  // Samples of this epoch that optimizer steps have used.
  auto operator<=>(const Cursor&) const = default;
};

// One optimizer step's samples: positions [first, first + count) of the epoch's permutation.
struct GlobalBatch {
  std::uint64_t epoch = 0;
  std::uint64_t first = 0;
  std::uint64_t count = 0;  // Smaller than the global batch size at the end of an epoch.
};

GlobalBatch BatchAt(const Cursor& cursor, std::uint64_t epoch_size, std::uint64_t global_batch);

// The cursor once `batch` is used; the start of the next epoch after the last one. An epoch leaves
// its last samples out where they are fewer than `least`.
Cursor CursorAfter(const GlobalBatch& batch, std::uint64_t epoch_size, std::uint64_t least = 1);

// The dataset indices of one rank's part of a batch: positions first + rank, first + rank + world,
// ... Empty for the last ranks of a small batch; they still take the step. Reuses `indices`.
void FillShare(const Permutation& permutation, const GlobalBatch& batch, std::uint32_t rank,
               std::uint32_t world_size, std::vector<std::uint32_t>& indices);

// The most samples any rank can get of a global batch of this size.
std::uint64_t LargestShare(std::uint64_t global_batch, std::uint32_t world_size);

// Optimizer steps of one epoch from its start; `least` as above, at most `global_batch`.
std::uint64_t StepsPerEpoch(std::uint64_t epoch_size, std::uint64_t global_batch,
                            std::uint64_t least = 1);

// The seed of whatever a rank draws at random during one step, a pure function of its arguments:
// a resumed run draws the same numbers without any generator state having been saved.
std::uint64_t StepSeed(std::uint64_t seed, std::uint64_t step, std::uint32_t rank);

}  // namespace ddprun
