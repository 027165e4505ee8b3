// How good a model was on some of a rank's samples. Torch-free.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace ddprun {

// Of this rank's samples.
struct Score {
  double loss_sum = 0;
  std::uint64_t correct = 0;  // Classification only.
  std::uint64_t samples = 0;
  // Of numbers that a program names itself: the sum over all samples. Every rank has the same
  // names.
  std::map<std::string, double> others;

  Score& operator+=(const Score& other) {
    loss_sum += other.loss_sum;
    correct += other.correct;
    samples += other.samples;
    for (const auto& [name, sum] : other.others) {
      others[name] += sum;
    }
    return *this;
  }
};

}  // namespace ddprun
