#include "trainer/data/batch_feed.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "common/check.h"

namespace ddprun {

BatchFeed::BatchFeed(std::uint32_t count, const FeedPlan& plan, Fill fill)
    : count_(count), plan_(plan), fill_(std::move(fill)), cursor_(plan.start) {
  CHECK(plan.most_per_part > 0);
  if (plan.ahead) {
    FillAhead();
  }
}

BatchFeed::~BatchFeed() {
  AwaitFilled();
}

Result<const FeedPart*> BatchFeed::Next() {
  if (!plan_.ahead) {
    RETURN_IF_ERROR(FillPart(parts_[0], 0));
    return &parts_[0];
  }
  AwaitFilled();
  RETURN_IF_ERROR(filled_);  // No part follows a failed one.
  const FeedPart* const part = &parts_[slot_];
  slot_ = (slot_ + 1) % kSlots;
  FillAhead();
  return part;
}

void BatchFeed::FillAhead() {
  const auto fill = [this] { filled_ = FillPart(parts_[slot_], slot_); };
  if (!thread_.Post(fill)) {
    fill();  // No thread can be had.
  }
}

void BatchFeed::AwaitFilled() {
  while (!thread_.Drain(std::chrono::hours(1))) {
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
