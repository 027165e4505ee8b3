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
  const bool news = count_.counted() != told_ || count_.absolute() != told_absolute_;
  if (!news || armed_) {
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

void PrintedProgress::End() {
  ended_ = true;
  timer_.Cancel();
  Tell();
}

// Of a program that prints bars besides, the count is not the step: then it is told both.
void PrintedProgress::Tell() {
  const bool moved = count_.counted() != std::exchange(told_, count_.counted());
  const auto absolute = count_.absolute();
  const bool stepped = absolute != std::exchange(told_absolute_, absolute) && absolute;
  told_at_ = loop_.Now();
  Notification said;
  if (stepped) {
    said.printed_step = absolute;
    said.printed_absolute = true;
    plan_.told(local_rank_, said);
  }
  if (moved && !(stepped && *absolute == count_.counted())) {
    said.printed_step = count_.counted();
    said.printed_absolute = false;
    plan_.told(local_rank_, said);
  }
}

}  // namespace ddprun
