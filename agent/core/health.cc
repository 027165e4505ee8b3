#include "agent/core/health.h"

#include <algorithm>
#include <utility>

#include "agent/core/rank_details.h"

namespace ddprun {
namespace {

using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;

// A tick that is later than this came late because this agent was paused.
constexpr auto kLate = 100ms;
constexpr Duration kAfterPause = 1s;  // To read the words that wait in the sockets.
constexpr Duration kLongestExtension = std::chrono::hours(24 * 7);

bool Watches(const AgentState& state, const AgentConfig& config) {
  return state.phase == AgentPhase::kRunning && config.hang_timeout > Duration{0};
}

// Whether the worker has reported or printed a step, said hello, or begun a collective.
bool HasBegun(const Heartbeat& heartbeat) {
  return heartbeat.source != ProgressSource::kCollectives || heartbeat.collectives > 0;
}

// Whether this worker's start takes too long. Unless --start-timeout was set by the user, imports,
// compilers and the preparation of data may take any time while they use a CPU.
bool IsLateInItsStart(const AgentStepContext& step, const WorkerSpoke& spoke) {
  const bool counts =
      !step.config.start_spares_busy || (spoke.idle && *spoke.idle >= step.config.hang_timeout);
  return counts && step.state.start_due && step.now >= *step.state.start_due;
}

// Whether this worker is late at the end of --start-timeout: it has not begun, and was not judged.
bool IsJudgedAtStart(const AgentState& state, const AgentConfig& config, std::uint32_t local) {
  const auto found = state.heartbeats.find(local);
  if (found == state.heartbeats.end()) {
    return config.judges_unseen && !state.ended.contains(local);
  }
  const Heartbeat& heartbeat = found->second;
  const bool judged =
      heartbeat.late && (heartbeat.phase == kInCollective || heartbeat.phase == kNotBegun);
  return !HasBegun(heartbeat) && !judged;
}

// The phase of a worker that has not begun. One that waits for the others is not the cause.
std::string PhaseBefore(bool start_is_over, bool waits) {
  return waits ? kInCollective : start_is_over ? kNotBegun : kBeforeJoining;
}

Time Due(const Heartbeat& heartbeat) {
  return heartbeat.since + heartbeat.allowed;
}

void NoteProgress(const AgentStepContext& step, Heartbeat& heartbeat) {
  heartbeat.since = step.now;
  heartbeat.allowed = step.config.hang_timeout;
  heartbeat.forgiven = false;
}

void SayIfInTime(AgentStepContext& step, Heartbeat& heartbeat) {
  const bool in_time = step.config.hang_timeout == Duration{0} || step.now < Due(heartbeat);
  if (heartbeat.late && in_time) {
    heartbeat.late = false;
    step.send = true;
  }
}

void ForgetCollectives(AgentState& state, std::uint32_t local_rank) {
  Heartbeat& heartbeat = state.heartbeats[local_rank];
  if (heartbeat.source == ProgressSource::kCollectives) {
    state.heartbeats.erase(local_rank);
    return;
  }
  heartbeat.collectives = heartbeat.world_collectives = 0;
  heartbeat.phase.clear();
}

// Before the first collective silence proves nothing, since a worker that prepares data may hold
// its interpreter for long. So the watching thread must report that nothing of the worker moves.
void OnStill(AgentStepContext& step, Heartbeat& heartbeat, const WorkerSpoke& spoke) {
  heartbeat.unjoined = true;
  NoteProgress(step, heartbeat);  // It was heard; kUnheard is for a watch that falls silent.
  const bool over = IsLateInItsStart(step, spoke);
  const std::string phase = PhaseBefore(over, spoke.in_collective);
  const bool late = over || (Watches(step.state, step.config) && *spoke.still >= heartbeat.allowed);
  step.send |= late != heartbeat.late || (over && phase != heartbeat.phase);
  heartbeat.phase = phase;
  heartbeat.late = late;
  heartbeat.allowed = over ? step.config.start_timeout : heartbeat.allowed;
}

// Progress that is seen from outside: printed steps and counted collectives. A worker that reports
// its own steps is only shown to be in a collective. Any other is ignored until a number is
// positive or a standstill is reported.
void OnSeen(AgentStepContext& step, const WorkerSpoke& spoke) {
  AgentState& state = step.state;
  const auto known = state.heartbeats.find(spoke.local_rank);
  const bool first = known == state.heartbeats.end();
  const bool still = spoke.still && spoke.collectives == 0;
  if (first && spoke.printed.value_or(0) == 0 && spoke.collectives.value_or(0) == 0 && !still) {
    return;
  }
  if (!first && known->second.source == ProgressSource::kTold) {
    known->second.in_collective =
        spoke.collectives ? spoke.in_collective : known->second.in_collective;
    return;
  }
  Heartbeat& heartbeat = state.heartbeats[spoke.local_rank];
  if (first) {
    heartbeat.source = ProgressSource::kCollectives;
  }
  if (still) {
    if (heartbeat.source == ProgressSource::kCollectives && heartbeat.collectives == 0) {
      OnStill(step, heartbeat, spoke);
    }
    return;
  }
  bool moved = first || std::exchange(heartbeat.unjoined, false);
  if (spoke.printed) {
    if (heartbeat.source != ProgressSource::kPrinted) {
      heartbeat.source = ProgressSource::kPrinted;
      heartbeat.step = 0;
      heartbeat.step_time = {};
      heartbeat.work.clear();
    }
    moved |= *spoke.printed > heartbeat.printed;
    heartbeat.printed = std::max(heartbeat.printed, *spoke.printed);
    state.progress = std::max(state.progress, spoke.printed_step.value_or(0));
    if (const std::uint64_t step_now = spoke.printed_step.value_or(heartbeat.printed);
        step_now > heartbeat.step) {
      NoteStep(heartbeat, step_now, std::nullopt, step.now);
      heartbeat.step = step_now;
    }
  }
  if (spoke.collectives == 0) {  // They are no longer counted.
    ForgetCollectives(state, spoke.local_rank);
    return;
  }
  if (spoke.collectives) {
    heartbeat.world_collectives = std::max(heartbeat.world_collectives, spoke.world_collectives);
    heartbeat.phase = spoke.in_collective ? kInCollective : "";
    moved |= *spoke.collectives > heartbeat.collectives;
    heartbeat.collectives = std::max(heartbeat.collectives, *spoke.collectives);
    if (heartbeat.source == ProgressSource::kCollectives) {
      heartbeat.step = heartbeat.collectives;
    }
  }
  if (moved) {
    NoteProgress(step, heartbeat);
  }
  SayIfInTime(step, heartbeat);
}

// How far a worker is, in a unit that can be compared with other ranks.
ProgressGroup ProgressOf(const Heartbeat& heartbeat) {
  ProgressGroup group{.step = heartbeat.step, .phase = heartbeat.phase, .count = 0};
  group.source = heartbeat.source;
  if (heartbeat.source == ProgressSource::kPrinted && heartbeat.collectives > 0) {
    group.source = ProgressSource::kCollectives;
  }
  if (group.source == ProgressSource::kCollectives) {
    group.step = heartbeat.world_collectives;  // Other ranks take no part in other groups'.
  }
  return group;
}

// The time-out that has no effect while no progress is seen; 0: none is set, or --start-timeout
// ends the start of unseen workers all the same.
Duration WatchedFor(const AgentConfig& config) {
  if (config.hang_timeout > Duration{0}) {
    return config.hang_timeout;
  }
  return config.judges_unseen ? Duration{0} : config.start_timeout;
}

void JudgeStart(AgentStepContext& step) {
  AgentState& state = step.state;
  const std::optional<Time> due = StartJudgedAt(state, step.config);
  if (!due || step.now < *due) {
    return;
  }
  if (step.now > *due + kLate && !std::exchange(state.start_forgiven, true)) {
    *state.start_due += step.now - *due + kAfterPause;
    return;
  }
  for (std::uint32_t local = 0; local < step.config.workers; ++local) {
    if (!IsJudgedAtStart(state, step.config, local)) {
      continue;
    }
    const auto [worker, unseen] = state.heartbeats.try_emplace(local);
    Heartbeat& heartbeat = worker->second;
    if (unseen) {
      heartbeat.source = ProgressSource::kCollectives;
      heartbeat.unjoined = true;
      heartbeat.since = step.now;
    }
    heartbeat.phase = PhaseBefore(true, heartbeat.phase == kInCollective);
    heartbeat.late = true;
    heartbeat.allowed = step.config.start_timeout;
    step.send = true;
  }
}

}  // namespace

void OnWorkerSpoke(AgentStepContext& step, const WorkerSpoke& spoke) {
  AgentState& state = step.state;
  if (!HasWorkers(state)) {
    return;
  }
  state.progress = std::max(state.progress, spoke.step.value_or(0));
  if ((spoke.printed || spoke.collectives) && !spoke.step && !spoke.ready) {
    OnSeen(step, spoke);
    return;
  }
  const auto known = state.heartbeats.find(spoke.local_rank);
  const bool first =
      known == state.heartbeats.end() || known->second.source != ProgressSource::kTold;
  if (first && !spoke.ready && !spoke.step) {
    return;
  }
  if (first) {
    state.heartbeats[spoke.local_rank] = Heartbeat{};  // From here on its own words count.
  }
  state.saved_before = false;  // From now on its work can be lost.
  Heartbeat& heartbeat = state.heartbeats[spoke.local_rank];
  const bool stepped = spoke.step && *spoke.step > heartbeat.step;
  const bool moved = spoke.phase && *spoke.phase != heartbeat.phase;
  if (stepped) {
    NoteStep(heartbeat, *spoke.step, spoke.work, step.now);
    heartbeat.step = *spoke.step;
  }
  if (moved) {
    heartbeat.phase = *spoke.phase;
  }
  if (first || stepped || moved) {
    NoteProgress(step, heartbeat);
  }
  if (spoke.extend) {
    const auto silent = std::chrono::ceil<Duration>(step.now - heartbeat.since);
    const auto extend = std::chrono::ceil<Duration>(*spoke.extend);
    heartbeat.allowed = std::max(heartbeat.allowed, silent + std::min(extend, kLongestExtension));
  }
  SayIfInTime(step, heartbeat);
}

void ForgetWords(AgentState& state) {
  state.heartbeats.clear();
  state.ended.clear();
  state.training.reset();
  state.steps = 0;
}

void HearNoMoreOf(AgentState& state, std::uint32_t ended_local_rank) {
  state.heartbeats.erase(ended_local_rank);
  state.ended.insert(ended_local_rank);
}

std::optional<Time> UnwatchedAt(const AgentState& state, const AgentConfig& config) {
  const Duration timeout = WatchedFor(config);
  const bool unwatched = config.says_unwatched && state.phase == AgentPhase::kRunning &&
                         timeout > Duration{0} && state.alive > 0 && state.heartbeats.empty() &&
                         !state.told_unwatched;
  return unwatched ? std::optional(state.told_to_run + timeout) : std::nullopt;
}

std::optional<Time> StartJudgedAt(const AgentState& state, const AgentConfig& config) {
  if (state.phase != AgentPhase::kRunning || config.start_spares_busy) {
    return std::nullopt;
  }
  for (std::uint32_t local = 0; local < config.workers; ++local) {
    if (IsJudgedAtStart(state, config, local)) {
      return state.start_due;
    }
  }
  return std::nullopt;
}

void BeginStart(AgentStepContext& step) {
  step.state.start_due = step.config.start_timeout > Duration{0}
                             ? std::optional(step.now + step.config.start_timeout)
                             : std::nullopt;
  step.state.start_forgiven = false;
}

void FindLateWorkers(AgentStepContext& step) {
  if (const auto unwatched = UnwatchedAt(step.state, step.config);
      unwatched && step.now >= *unwatched) {
    step.state.told_unwatched = true;
    step.Tell(NoticeLevel::kWarning,
              "no worker has reported progress in " + FormatDuration(WatchedFor(step.config)) +
                  ". Until one does, " +
                  (step.config.hang_timeout > Duration{0} ? "--hang-timeout" : "--start-timeout") +
                  " has no effect. ddprun sees progress in torch's collectives (start Python "
                  "itself, not a script that starts it), in ddprun.step(), and in printed steps "
                  "(set --progress-from) [no-progress]");
  }
  JudgeStart(step);
  const std::optional<Time> due = NextLate(step.state, step.config);
  if (!due || step.now < *due) {
    return;
  }
  const bool paused = step.now > *due + kLate;
  for (auto& [local_rank, heartbeat] : step.state.heartbeats) {
    if (paused && !heartbeat.late && !heartbeat.forgiven) {
      // Its workers may have been paused as well, since the last event.
      heartbeat.since += step.now - std::min(*due, step.before) + kAfterPause;
      heartbeat.forgiven = true;  // Only once, since on a busy machine every tick is late.
    } else if (!heartbeat.late && step.now >= Due(heartbeat)) {
      heartbeat.late = true;
      heartbeat.phase = heartbeat.unjoined ? kUnheard : heartbeat.phase;
      step.send = true;
      step.Tell(NoticeLevel::kDetail,
                "rank " + std::to_string(step.state.placement->first_rank + local_rank) +
                    " has made no progress for " + FormatDuration(heartbeat.allowed));
    }
  }
}

std::optional<Time> NextLate(const AgentState& state, const AgentConfig& config) {
  std::optional<Time> next;
  if (Watches(state, config)) {
    for (const auto& [local_rank, heartbeat] : state.heartbeats) {
      if (!heartbeat.late) {
        next = next ? std::min(*next, Due(heartbeat)) : Due(heartbeat);
      }
    }
  }
  return next;
}

std::vector<ProgressGroup> ProgressGroupsOf(const AgentState& state) {
  std::vector<ProgressGroup> groups;
  for (const auto& [local_rank, heartbeat] : state.heartbeats) {
    ProgressGroup own = ProgressOf(heartbeat);
    own.first_rank = state.placement->first_rank + local_rank;
    auto same = std::find_if(groups.begin(), groups.end(), [&own](const ProgressGroup& s) {
      return s.step == own.step && s.phase == own.phase && s.source == own.source;
    });
    if (same == groups.end()) {
      groups.push_back(std::move(own));
      same = groups.end() - 1;
    }
    ++same->count;
    if (heartbeat.late) {
      ++same->late;
      same->allowed = std::max(same->allowed, heartbeat.allowed);
    }
  }
  std::stable_sort(groups.begin(), groups.end(),
                   [](const ProgressGroup& a, const ProgressGroup& b) { return a.step < b.step; });
  for (; groups.size() > kMaxProgressGroups; groups.pop_back()) {
    ProgressGroup& last = groups[kMaxProgressGroups - 1];  // Ranks that are ahead are merged,
    if (groups.back().phase == kInCollective) {
      last.phase = kInCollective;  // but that one of them waits must stay known.
    }
    last.count += groups.back().count;
    last.late += groups.back().late;
  }
  return groups;
}

std::optional<std::uint32_t> LateRank(const AgentState& state) {
  for (const auto& [local_rank, heartbeat] : state.heartbeats) {
    if (heartbeat.late) {
      return state.placement->first_rank + local_rank;
    }
  }
  return std::nullopt;
}

void BeginHangStop(AgentStepContext& step) {
  AgentState& state = step.state;
  if (state.phase != AgentPhase::kRunning) {
    return;
  }
  TakeStacks take{state.placement->generation, {}};
  for (std::uint32_t local = 0; local < step.config.workers; ++local) {
    if (!state.ended.contains(local)) {
      take.local_ranks.push_back(local);
    }
  }
  // Workers without a heartbeat come first: the others may be waiting for them.
  const auto step_of = [&](std::uint32_t local) {
    const auto found = state.heartbeats.find(local);
    return found == state.heartbeats.end() ? 0 : found->second.step;
  };
  std::stable_sort(take.local_ranks.begin(), take.local_ranks.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return step_of(a) < step_of(b); });
  state.phase = AgentPhase::kStopping;
  state.planned = false;
  state.taking_stacks = true;
  state.kill_at = step.now + kEvidenceTime;
  step.effects.push_back(std::move(take));
}

}  // namespace ddprun
