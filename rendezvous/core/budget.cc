#include "rendezvous/core/budget.h"

#include <algorithm>

#include "rendezvous/core/describe.h"

namespace ddprun {
namespace {

constexpr int kDoNotRestart = 76;

bool HasWindow(const RunShape& shape) {
  return shape.restart_window > Duration{0};
}

bool Counts(const RunShape& shape, Time when, Time now) {
  return now - when < shape.restart_window;
}

std::uint32_t Used(const CoordinatorState& state, Time now) {
  if (!HasWindow(*state.shape)) {
    return state.restarts_used;
  }
  const auto& charged = state.budget.charged;
  return static_cast<std::uint32_t>(std::count_if(
      charged.begin(), charged.end(), [&](Time when) { return Counts(*state.shape, when, now); }));
}

// Counts this incident among those without progress; true when they are too many.
bool IsCrashLoop(Budget& budget, const RunShape& shape) {
  const bool progress = budget.highest > budget.reached;
  budget.reached = budget.highest;
  budget.stuck = progress ? 1 : budget.stuck + 1;
  return budget.told && shape.crash_loop_limit > 0 && budget.stuck >= shape.crash_loop_limit;
}

Finish CrashLoop(const CoordinatorState& state, const Judgement& judgement) {
  const std::string what =
      judgement.root ? Describe(*judgement.root) : state.drain->spawn_failures.front();
  return Finish{Ending::kFailed, kDoNotRestart,
                what + "; the workers failed " + std::to_string(state.budget.stuck) +
                    " times in a row without getting beyond step " +
                    std::to_string(state.budget.highest) +
                    ", so another restart would not help (--crash-loop-limit)",
                judgement.root, true};
}

}  // namespace

void NoteProgress(Budget& budget, std::uint64_t step) {
  budget.told |= step > 0;
  budget.highest = std::max(budget.highest, step);
}

Judgement JudgeWithinBudget(CoordinatorState& state, Time now) {
  const RunShape& shape = *state.shape;
  Judgement judgement = Judge(*state.drain, Used(state, now), shape.max_restarts);
  if (judgement.outcome && HasWindow(shape) && !state.budget.charged.empty()) {
    judgement.outcome->text += " (--restart-window=" + FormatDuration(shape.restart_window) + ")";
  }
  if (!judgement.charged) {
    return judgement;
  }
  if (IsCrashLoop(state.budget, shape)) {
    judgement.charged = false;
    judgement.outcome = CrashLoop(state, judgement);
    return judgement;
  }
  ++state.restarts_used;
  if (HasWindow(shape)) {
    std::erase_if(state.budget.charged, [&](Time when) { return !Counts(shape, when, now); });
    state.budget.charged.push_back(now);
  }
  return judgement;
}

std::string RestartsInWords(const CoordinatorState& state, Time now) {
  const std::string window =
      HasWindow(*state.shape) ? " within " + FormatDuration(state.shape->restart_window) : "";
  return std::to_string(Used(state, now)) + " of " + std::to_string(state.shape->max_restarts) +
         window;
}

}  // namespace ddprun
