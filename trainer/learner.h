// The model, its optimizer and how they take one step together with all ranks.
//
// A step is forward, backward with gradients averaged over the ranks while backward still runs
// (c10d's Reducer, buckets), then Adam. Gradients are weighted so that the result is that of one
// process with the whole global batch, however unevenly its samples are dealt out. Knows nothing
// of epochs, files or time. Torch-free to its callers.
//
// An error of kind kUnavailable means that a peer is gone; the learner is of no use after that.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/result.h"
#include "trainer/checkpoint/snapshot_copier.h"
#include "trainer/models/model.h"
#include "trainer/process_group.h"

namespace ddprun {

struct LearnerOptions {
  ModelShape shape;
  std::uint64_t seed = 1;
  double lr = 1e-3;
  std::size_t bucket_bytes = std::size_t{25} << 20;
};

// Of this rank's samples.
struct Score {
  double loss_sum = 0;
  std::uint64_t correct = 0;
  std::uint64_t samples = 0;

  Score& operator+=(const Score& other) {
    loss_sum += other.loss_sum;
    correct += other.correct;
    samples += other.samples;
    return *this;
  }
};

using Buckets = std::vector<std::vector<std::size_t>>;

class Learner {
 public:
  Learner(const ModelEntry& model, const LearnerOptions& options, ProcessGroup& group);
  ~Learner();

  // Rank 0's parameters and optimizer state on all ranks, then ready for steps. `capacity` is the
  // most samples of one step or evaluation here. `buckets` is what a checkpoint recorded, so that a
  // resumed run adds gradients up in the same order as the run that went on; empty: none yet.
  Result<void> Start(std::size_t capacity, const Buckets& buckets);

  // Where the caller puts the next samples, after Start; room for `capacity` of them.
  float* images();
  std::int64_t* labels();

  // One optimizer step with the first `count` samples put in place, of `global_count` on all ranks
  // together. `seed` feeds whatever the model draws at random.
  Result<Score> Step(std::size_t count, std::uint64_t global_count, std::uint64_t seed);

  // No learning; only this rank.
  Result<Score> Evaluate(std::size_t count);

  // Names, shapes and sizes: equal only for equal models.
  std::string Describe() const;

  // Called in each Step once gradients are averaged, just before parameters and optimizer state
  // change; from one such call to the next they do not (SnapshotCopier's contract).
  void BeforeUpdate(std::function<void()> wait);

  // Parameters and optimizer state, where they lie as long as the learner lives.
  SnapshotView View() const;
  Result<void> CopyFrom(const Snapshot& snapshot);

  // How gradients are grouped and ordered; empty before the first step and in a group of one.
  const Buckets& buckets() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Fixed for the process, before any other use of libtorch.
void SetThreads(int threads);

}  // namespace ddprun
