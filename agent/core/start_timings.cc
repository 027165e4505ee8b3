#include "agent/core/start_timings.h"

#include <algorithm>

#include "agent/core/health.h"
#include "agent/core/rank_details.h"
#include "rendezvous/messages/lease.h"

namespace ddprun {
namespace {

Duration Since(Time then, Time now) {
  return std::chrono::round<Duration>(std::max(now, then) - then);
}

void NoteWord(AgentStepContext& step, const WorkerSpoke& spoke) {
  AgentState& state = step.state;
  if (state.phase != AgentPhase::kRunning) {
    return;
  }
  state.workers_tell_steps |= spoke.step.has_value();
  if (state.start_timings.stepped) {
    return;
  }
  // Where workers report no step, the first one that is printed and the first collective are the
  // only signs of one. Often a single rank prints.
  const bool seen = spoke.printed.value_or(0) > 0 || spoke.collectives.value_or(0) > 0;
  if (seen && !state.workers_tell_steps) {
    state.start_timings.stepped = Since(state.told_to_run, step.now);
    return;
  }
  if (!spoke.resume && !spoke.step) {
    return;
  }
  Begun& worker = state.begun[spoke.local_rank];
  worker.resume = worker.resume ? worker.resume : spoke.resume;
  worker.stepped |= spoke.step && (!worker.resume || *spoke.step > *worker.resume);
  const auto all = [&](auto has) {
    return state.begun.size() == step.config.workers &&
           std::ranges::all_of(state.begun, [&](const auto& entry) { return has(entry.second); });
  };
  if (!state.start_timings.restored &&
      all([](const Begun& begun) { return begun.resume.has_value(); })) {
    state.start_timings.restored = Since(state.told_to_run, step.now);
  }
  if (all([](const Begun& begun) { return begun.stepped; })) {
    state.start_timings.stepped = Since(state.told_to_run, step.now);
  }
}

}  // namespace

void BeginPace(AgentStepContext& step) {
  step.state.start_timings = {};
  step.state.told_to_run = step.now;
  step.state.begun.clear();
}

void NoteStarted(AgentStepContext& step, const WorkersStarted& started) {
  AgentState& state = step.state;
  if (HasWorkers(state) && started.generation == state.placement->generation) {
    state.start_timings.started = Since(state.told_to_run, step.now);
  }
}

void OnWord(AgentStepContext& step, const WorkerSpoke& spoke) {
  NoteWord(step, spoke);
  OnWorkerSpoke(step, spoke);
  NoteTraining(step, spoke);
}

void NoteBadNews(AgentStepContext& step, Time noticed) {
  if (!step.state.start_timings.detect) {
    step.state.start_timings.detect = Since(noticed, step.now);
  }
}

bool HoldsBackItsStart(AgentStepContext& step) {
  AgentState& state = step.state;
  const bool starts =
      std::any_of(step.effects.begin(), step.effects.end(),
                  [](const AgentEffect& effect) { return std::holds_alternative<Spawn>(effect); });
  if (!starts || state.poll_period < kLargeWorldsPoll) {
    return false;
  }
  const auto share = static_cast<Duration::rep>(state.incarnation.value % 1'000);
  state.retry_at = step.now + state.poll_period / kStartsPerPoll * share / 1'000;
  return true;
}

}  // namespace ddprun
