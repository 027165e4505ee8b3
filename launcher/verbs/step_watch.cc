#include "launcher/verbs/step_watch.h"

#include <algorithm>
#include <chrono>

namespace ddprun {
namespace {

constexpr Duration kLeastLate{5'000};

// Of the world's nodes; 0: none has told one.
std::uint64_t LowestStep(const RunStatus& run) {
  std::optional<std::uint64_t> lowest;
  for (const NodeStatus& node : run.nodes) {
    if (node.in_world) {
      lowest = std::min(lowest.value_or(node.step), node.step);
    }
  }
  return lowest.value_or(0);
}

}  // namespace

void StepWatch::Look(const RunStatus& run, Time now) {
  trains_ = run.phase == "running" && run.outcome.empty();
  if (run.generation != generation_ || !trains_) {  // Another world begins where it resumes.
    seen_.clear();
    began_.reset();
    generation_ = run.generation;
  }
  began_ = began_.value_or(now);
  const std::uint64_t step = LowestStep(run);
  if (step == 0 || (!seen_.empty() && step <= seen_.back().step)) {
    return;
  }
  seen_.push_back({step, now});
  if (seen_.size() > kRemembered) {
    seen_.pop_front();
  }
}

// Of what was seen: the first one may have been taken long before.
std::optional<Duration> StepWatch::Usual() const {
  if (seen_.size() < 3) {
    return std::nullopt;
  }
  const auto& first = seen_[1];
  const auto& last = seen_.back();
  const auto steps = static_cast<std::int64_t>(last.step - first.step);
  return std::chrono::ceil<Duration>((last.when - first.when) / std::max<std::int64_t>(1, steps));
}

bool StepWatch::Late(Time now) const {
  if (!trains_ || !began_ || seen_.empty()) {
    return false;
  }
  const auto usual = Usual();
  const Duration patience = std::max(kLeastLate, usual ? kLate * *usual : Duration{0});
  return now - seen_.back().when >= patience;
}

std::string StepWatch::Headline(Time now) const {
  if (!trains_ || seen_.empty()) {
    return "";
  }
  const auto usual = Usual();
  if (Late(now)) {
    const auto since = std::chrono::ceil<Duration>(now - seen_.back().when);
    return "no step for " + FormatDuration(since) +
           (usual ? " (usual " + FormatDuration(*usual) + ")" : ", as long as this has looked");
  }
  return usual ? "step " + std::to_string(seen_.back().step) + ", " + FormatDuration(*usual) +
                     " per step"
               : "";
}

}  // namespace ddprun
