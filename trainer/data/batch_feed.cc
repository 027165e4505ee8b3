#include "trainer/data/batch_feed.h"

#include <algorithm>
#include <utility>

#include "common/check.h"

namespace ddprun {

BatchFeed::BatchFeed(std::uint32_t count, const FeedPlan& plan, Fill fill)
    : count_(count), plan_(plan), fill_(std::move(fill)), cursor_(plan.start) {
  CHECK(plan.most_per_part > 0);
  if (plan.ahead) {
    filler_ = std::jthread([this](const std::stop_token& end) { FillAhead(end); });
  }
}

Result<const FeedPart*> BatchFeed::Next() {
  if (!plan_.ahead) {
    RETURN_IF_ERROR(FillPart(parts_[0], 0));
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
void BatchFeed::FillAhead(const std::stop_token& end) {
  for (std::uint64_t number = 0;; ++number) {
    {
      std::unique_lock<std::mutex> lock(mutex_);
      changed_.wait(lock, end, [&] { return number < kSlots || asked_ >= number; });
      if (end.stop_requested()) {
        return;
      }
    }
    const Result<void> filled = FillPart(parts_[number % kSlots], number % kSlots);
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

Result<void> BatchFeed::FillPart(FeedPart& part, std::size_t slot) {
  FeedPart& now = last_;
  if (now.ends_step()) {
    now.batch = BatchAt(cursor_, count_, plan_.global_batch);
    if (!order_ || now.batch.first == 0) {
      order_.emplace(count_, plan_.seed, now.batch.epoch);
    }
    now.lead = static_cast<std::uint32_t>(order_->At(now.batch.first));
    FillShare(*order_, now.batch, plan_.rank, plan_.world_size, now.share);
    cursor_ = CursorAfter(now.batch, count_, plan_.least_batch);
    now.after = cursor_;
    now.first = 0;
  } else {
    now.first += now.count;
  }
  now.count = std::min<std::size_t>(now.share.size() - now.first, plan_.most_per_part);
  now.slot = slot;
  RETURN_IF_ERROR(fill_(now, AugmentKey{plan_.seed, now.batch.epoch}));
  part = now;
  return {};
}

BatchFeed::Fill GatherInto(const Samples& samples,
                           const std::array<BatchRoom, BatchFeed::kSlots>& rooms) {
  return [&samples, rooms](const FeedPart& part, const AugmentKey& key) {
    return samples.gather(std::span(part.share).subspan(part.first, part.count), key,
                          rooms[part.slot]);
  };
}

}  // namespace ddprun
