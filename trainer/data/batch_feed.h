// Gives the training loop its batches, one part of a step after the other: which samples, gathered
// where the learner wants them.
//
// A pure function of where the training starts: the same parts with or without the thread that
// fills the next part while the caller learns from this one. Never ends by itself: behind the last
// step lies the next epoch. One caller thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "common/task_queue.h"
#include "trainer/data/dataset.h"
#include "trainer/data/sampler.h"

namespace ddprun {

struct FeedPlan {
  Cursor start;
  std::uint64_t seed = 0;
  std::uint64_t global_batch = 1;
  std::uint64_t least_batch = 1;    // Fewer samples at the end of an epoch are left out.
  std::uint64_t most_per_part = 1;  // Of this rank's share of a step, at a time.
  std::uint32_t rank = 0;
  std::uint32_t world_size = 1;
  bool ahead = false;  // Fill the next part on a thread.
};

struct FeedPart {
  GlobalBatch batch;
  Cursor after;                      // Where the training is once the step is done.
  std::uint32_t lead = 0;            // The first sample of the batch, on whatever rank.
  std::vector<std::uint32_t> share;  // This rank's samples of the whole step; may be none.
  std::size_t first = 0;             // Of `share`: the samples of this part.
  std::size_t count = 0;
  std::size_t slot = 0;  // Where they are.

  bool begins_step() const { return first == 0; }
  bool ends_step() const { return first + count == share.size(); }
};

class BatchFeed {
 public:
  static constexpr std::size_t kSlots = 2;

  // Puts the samples of a part where they belong: those of `share` from `first` on, `count` of
  // them. A slot is filled again once the caller of Next has asked for the part after the one in
  // it. May be called by another thread than Next, by one at a time.
  using Fill = std::function<Result<void>(const FeedPart& part, const AugmentKey& key)>;
  // Of a data set with `count` samples.
  BatchFeed(std::uint32_t count, const FeedPlan& plan, Fill fill);
  ~BatchFeed();

  // Valid until the next call. An error: a sample could not be read; so are all calls after it.
  Result<const FeedPart*> Next();

 private:
  Result<void> FillPart(FeedPart& part, std::size_t slot);
  // Of the next part, on the thread.
  void FillAhead();
  void AwaitFilled();

  const std::uint32_t count_;
  const FeedPlan plan_;
  const Fill fill_;

  // Of the filling thread, or of the caller where there is none.
  Cursor cursor_;
  std::optional<Permutation> order_;
  FeedPart last_;

  std::array<FeedPart, kSlots> parts_;
  std::size_t slot_ = 0;  // Of the part that is filled ahead.
  Result<void> filled_;   // What came of it.
  TaskQueue thread_;
};

// Gathers them into rooms of memory. `samples` outlives the feed; each room holds most_per_part
// samples and is the feed's.
BatchFeed::Fill GatherInto(const Samples& samples,
                           const std::array<BatchRoom, BatchFeed::kSlots>& rooms);

}  // namespace ddprun
