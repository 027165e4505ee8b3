#include "agent/workers/printed_progress.h"

#include <utility>

namespace ddprun {

PrintedProgress::PrintedProgress(Loop& loop, ProgressPlan plan, std::uint32_t local_rank)
    : loop_(loop),
      plan_(std::move(plan)),
      local_rank_(local_rank),
      out_(plan_.forms),
      err_(plan_.forms),
      timer_(loop) {}

void PrintedProgress::Feed(bool is_error, std::string_view bytes) {
  if (ended_) {
    return;
  }
  (is_error ? err_ : out_).Feed(bytes, count_);
  if (!HasNews() || armed_) {
    return;
  }
  if (!told_at_ || loop_.Now() - *told_at_ >= kBetween) {
    Tell();
    return;
  }
  armed_ = true;
  timer_.ArmAt(*told_at_ + kBetween, [this] {
    armed_ = false;
    Tell();
  });
}

bool PrintedProgress::HasNews() const {
  return count_.counted() != told_ || count_.absolute() != told_absolute_;
}

void PrintedProgress::End() {
  ended_ = true;
  timer_.Cancel();
  Tell();
}

void PrintedProgress::Tell() {
  if (!HasNews()) {
    return;
  }
  told_ = count_.counted();
  told_absolute_ = count_.absolute();
  told_at_ = loop_.Now();
  plan_.told({.local_rank = local_rank_, .printed = told_, .printed_step = told_absolute_});
}

}  // namespace ddprun
