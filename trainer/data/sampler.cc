#include "trainer/data/sampler.h"

#include <algorithm>

#include "common/check.h"
#include "trainer/random.h"

namespace ddprun {
Permutation::Permutation(std::uint64_t size, std::uint64_t seed, std::uint64_t epoch)
    : size_(size), half_bits_(1) {
  CHECK(size >= 1 && size <= std::uint64_t{1} << 62);
  while ((std::uint64_t{1} << (2 * half_bits_)) < size) {
    ++half_bits_;
  }
  half_mask_ = (std::uint64_t{1} << half_bits_) - 1;
  // Chained, not added: seed 1 epoch 2 and seed 2 epoch 1 must not share an order.
  std::uint64_t key = Mix(Mix(seed) ^ epoch);
  for (std::uint64_t& round_key : round_keys_) {
    key = Mix(key);
    round_key = key;
  }
}

std::uint64_t Permutation::Encrypt(std::uint64_t value) const {
  std::uint64_t left = value >> half_bits_;
  std::uint64_t right = value & half_mask_;
  for (const std::uint64_t round_key : round_keys_) {
    const std::uint64_t next = left ^ (Mix(right ^ round_key) & half_mask_);
    left = right;
    right = next;
  }
  return (left << half_bits_) | right;
}

std::uint64_t Permutation::At(std::uint64_t position) const {
  CHECK(position < size_);
  std::uint64_t value = Encrypt(position);
  while (value >= size_) {  // Fewer than four rounds on average; ends, since a cycle returns.
    value = Encrypt(value);
  }
  return value;
}

GlobalBatch BatchAt(const Cursor& cursor, std::uint64_t epoch_size, std::uint64_t global_batch) {
  CHECK(global_batch >= 1 && cursor.consumed < epoch_size);
  return {cursor.epoch, cursor.consumed, std::min(global_batch, epoch_size - cursor.consumed)};
}

Cursor CursorAfter(const GlobalBatch& batch, std::uint64_t epoch_size, std::uint64_t least) {
  const std::uint64_t consumed = batch.first + batch.count;
  CHECK(consumed <= epoch_size);
  return epoch_size - consumed < least ? Cursor{batch.epoch + 1, 0} : Cursor{batch.epoch, consumed};
}

void FillShare(const Permutation& permutation, const GlobalBatch& batch, std::uint32_t rank,
               std::uint32_t world_size, std::vector<std::uint32_t>& indices) {
  CHECK(rank < world_size);
  indices.clear();
  for (std::uint64_t i = rank; i < batch.count; i += world_size) {
    indices.push_back(static_cast<std::uint32_t>(permutation.At(batch.first + i)));
  }
}

std::uint64_t LargestShare(std::uint64_t global_batch, std::uint32_t world_size) {
  return (global_batch + world_size - 1) / world_size;
}

std::uint64_t StepsPerEpoch(std::uint64_t epoch_size, std::uint64_t global_batch,
                            std::uint64_t least) {
  return (epoch_size + global_batch - least) / global_batch;
}

std::uint64_t StepSeed(std::uint64_t seed, std::uint64_t step, std::uint32_t rank) {
  return Mix(Mix(Mix(seed) ^ step) ^ rank);
}

}  // namespace ddprun
