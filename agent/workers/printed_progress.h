// One worker's progress as it prints it, reported at most once per kBetween and the last always.
//
// Decides nothing about what it means. Used on the loop, and calls back there; no timer is armed
// while nothing is to be reported.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>

#include "agent/workers/progress_lines.h"
#include "common/loop.h"
#include "proto/worker_word.h"

namespace ddprun {

// The forms that are looked for in workers' output, and the function that gets the result.
struct ProgressPlan {
  std::shared_ptr<const ProgressForms> forms;  // nullptr: nothing is.
  std::function<void(const WorkerWord& said)> told;
};

class PrintedProgress {
 public:
  static constexpr Duration kBetween{100};

  PrintedProgress(Loop& loop, ProgressPlan plan, std::uint32_t local_rank);

  // Takes bytes of stdout or of stderr.
  void Feed(bool is_error, std::string_view bytes);

  // The worker has ended: reports what was not reported, and is silent from then on.
  void End();

 private:
  bool HasNews() const;
  void Tell();

  Loop& loop_;
  const ProgressPlan plan_;
  const std::uint32_t local_rank_;
  ProgressLines out_;
  ProgressLines err_;
  ProgressCount count_;
  std::uint64_t told_ = 0;
  std::optional<std::uint64_t> told_absolute_;
  std::optional<Time> told_at_;
  bool armed_ = false;
  bool ended_ = false;
  LoopTimer timer_;
};

}  // namespace ddprun
