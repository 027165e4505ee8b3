#include "trainer/data/batch_feed.h"

#include <algorithm>

#include "common/check.h"

namespace ddprun {

BatchFeed::BatchFeed(const Samples& samples, const FeedPlan& plan,
                     const std::array<BatchRoom, kSlots>& rooms)
    : samples_(samples), plan_(plan), rooms_(rooms), cursor_(plan.start) {
  CHECK(plan.most_per_part > 0);
  if (plan.ahead) {
    filler_ = std::thread([this] { FillAhead(); });
  }
}

BatchFeed::~BatchFeed() {
  if (!filler_.joinable()) {
    return;
  }
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  filler_.join();
}

Result<const FeedPart*> BatchFeed::Next() {
  if (!plan_.ahead) {
    RETURN_IF_ERROR(Fill(parts_[0], 0));
    return &parts_[0];
  }
  std::unique_lock<std::mutex> lock(mutex_);
  const std::uint64_t wanted = asked_++;
  changed_.notify_all();
  changed_.wait(lock, [&] { return filled_ > wanted || failed_; });
  if (filled_ <= wanted) {
    return *failed_;
  }
  return &parts_[wanted % kSlots];
}

// A slot is free once its reader has asked for the part after the one in it.
void BatchFeed::FillAhead() {
  for (std::uint64_t number = 0;; ++number) {
    {
      std::unique_lock<std::mutex> lock(mutex_);
      changed_.wait(lock, [&] { return stop_ || number < kSlots || asked_ >= number; });
      if (stop_) {
        return;
      }
    }
    const Result<void> filled = Fill(parts_[number % kSlots], number % kSlots);
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (filled) {
        filled_ = number + 1;
      } else {
        failed_ = filled.error();
      }
    }
    changed_.notify_all();
    if (!filled) {
      return;
    }
  }
}

Result<void> BatchFeed::Fill(FeedPart& part, std::size_t slot) {
  FeedPart& now = last_;
  if (now.ends_step()) {
    now.batch = BatchAt(cursor_, samples_.count, plan_.global_batch);
    if (!order_ || now.batch.first == 0) {
      order_.emplace(samples_.count, plan_.seed, now.batch.epoch);
    }
    FillShare(*order_, now.batch, plan_.rank, plan_.world_size, now.share);
    cursor_ = CursorAfter(now.batch, samples_.count);
    now.first = 0;
  } else {
    now.first += now.count;
  }
  now.count = std::min<std::size_t>(now.share.size() - now.first, plan_.most_per_part);
  now.slot = slot;
  RETURN_IF_ERROR(samples_.gather(std::span(now.share).subspan(now.first, now.count),
                                  AugmentKey{plan_.seed, now.batch.epoch}, rooms_[slot]));
  part = now;
  return {};
}

}  // namespace ddprun
