#include "agent/core/fitness.h"

#include <algorithm>

#include "common/slug.h"
#include "rendezvous/messages/limits.h"

namespace ddprun {
namespace {

using std::chrono_literals::operator""min;

constexpr Duration kPatience{1'000};
constexpr Duration kFirstAgain = 1min;
constexpr std::uint32_t kMostDoublings = 3;

void Check(AgentStepContext& step, CheckCause cause) {
  Fitness& fitness = step.state.fitness;
  fitness.suspect = false;
  fitness.again.reset();
  if (step.config.checks_node && !fitness.checking && step.state.phase == AgentPhase::kIdle) {
    fitness.checking = true;
    fitness.patience = step.now + kPatience;
    step.effects.push_back(CheckNode{cause});
  }
}

}  // namespace

void BeginFirstCheck(AgentStepContext& step) {
  const std::string why = WithoutSlug(step.config.cannot_start);
  if (why.empty()) {
    Check(step, CheckCause::kStart);
    return;
  }
  step.state.fitness.unfit = why.substr(0, kMaxUnfit);
  step.state.leave_at = step.now + std::min(kTellsOthers, step.config.spec.join_timeout);
  step.Tell(NoticeLevel::kWarning, "this node cannot start its workers: " + why +
                                       ". It joins the run to tell the other nodes, and leaves "
                                       "after " +
                                       FormatDuration(kTellsOthers) +
                                       " at the latest [cannot-start]");
}

void LeaveIfDue(AgentStepContext& step) {
  AgentState& state = step.state;
  if (state.leave_at && step.now >= *state.leave_at) {
    state.leave_at.reset();
    state.leaving = std::max(state.leaving, Leaving::kLeave);
  }
}

void CheckIfSuspect(AgentStepContext& step) {
  if (step.state.fitness.suspect && step.state.leaving == Leaving::kNo) {
    Check(step, CheckCause::kFailure);
  }
}

void OnChecked(AgentStepContext& step, const NodeChecked& checked) {
  Fitness& fitness = step.state.fitness;
  if (!fitness.checking) {
    return;
  }
  fitness.checking = false;
  fitness.patience.reset();
  if (step.state.phase == AgentPhase::kDone) {
    return;
  }
  if (checked.unfit.empty()) {
    step.Tell(fitness.unfit.empty() ? NoticeLevel::kDetail : NoticeLevel::kInfo,
              fitness.unfit.empty() ? "this node passes its check (--node-check)"
                                    : "this node passes its check again and joins");
    fitness = {};
    return;
  }
  const std::string why = checked.unfit.substr(0, kMaxUnfit);
  const bool news = why != fitness.unfit;
  fitness.unfit = why;
  const auto doublings = std::min<std::uint32_t>(fitness.refusals, kMostDoublings);
  const Duration pause = kFirstAgain * (1 << doublings);
  ++fitness.refusals;
  fitness.again = step.now + pause;
  // Alone, the end of the run says the same.
  step.Tell(news && !step.config.alone ? NoticeLevel::kWarning : NoticeLevel::kDetail,
            "node check failed: " + why + ". Not joining until it passes; retrying in " +
                FormatDuration(pause) + " (--node-check, --host-check) [node-check]");
}

void OnHostLooked(AgentStepContext& step, const HostLooked& looked) {
  step.state.facts = looked.facts;
  if (step.state.facts.size() > kMaxFacts) {
    step.state.facts.resize(kMaxFacts);
  }
  const bool idle = step.state.phase == AgentPhase::kIdle && step.state.leaving == Leaving::kNo;
  if (!looked.refuses.empty() && idle && MayHost(step.state)) {
    Check(step, CheckCause::kFailure);
  }
}

void CheckAgainIfDue(AgentStepContext& step) {
  Fitness& fitness = step.state.fitness;
  if (fitness.patience && step.now >= *fitness.patience) {
    fitness.patience.reset();
    step.Tell(fitness.unfit.empty() ? NoticeLevel::kInfo : NoticeLevel::kDetail,
              "this node's check is still running: waiting for its result (--node-check)");
  }
  if (fitness.again && step.now >= *fitness.again) {
    Check(step, CheckCause::kUnfit);
  }
}

bool MayHost(const AgentState& state) {
  return !state.fitness.checking && state.fitness.unfit.empty();
}

}  // namespace ddprun
