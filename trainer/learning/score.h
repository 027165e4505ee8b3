// How good a model was on some of a rank's samples. Torch-free.
#pragma once

#include <cstdint>

namespace ddprun {

// Of this rank's samples.
struct Score {
  double loss_sum = 0;
  std::uint64_t correct = 0;  // Classification only.
  std::uint64_t samples = 0;

  Score& operator+=(const Score& other) {
    loss_sum += other.loss_sum;
    correct += other.correct;
    samples += other.samples;
    return *this;
  }
};

}  // namespace ddprun
