#include "rendezvous/core/transitions.h"

#include <algorithm>
#include <map>
#include <utility>

#include "common/exit_code.h"
#include "rendezvous/core/admission.h"
#include "rendezvous/core/fencing.h"
#include "rendezvous/core/formation.h"
#include "rendezvous/messages/describe.h"
#include "rendezvous/messages/lease.h"

namespace ddprun {
namespace {

// Said once for each verdict: of a world that continues it comes with every report.
void OnHang(CoordinatorStepContext& step, WorkerFailure hang) {
  CoordinatorState& state = step.state;
  const std::string why = Describe(hang);
  const bool goes_on = state.spec->on_hang == kHangIsReported;
  // Not by its whole text: its peers may take steps meanwhile.
  const std::string told = std::to_string(state.world->generation.value) + " " +
                           std::to_string(hang.rank) + " " + state.hang.at;
  if (goes_on && std::exchange(state.hang.told, told) == told) {
    return;
  }
  RunEvent& event = step.Say(
      kEventHung, goes_on ? NoticeLevel::kWarning : NoticeLevel::kDetail,
      why + (goes_on ? "; the run continues (--on-hang=observe, as without --hang-timeout)" : "") +
          " [workers-hang]");
  event.cause = WordOf(StopCause::kHang);
  std::optional<Time>& asked = state.hang.evidence;
  if (goes_on && (!asked || step.now >= *asked + kEvidenceEvery)) {
    asked = step.now;
    for (const Member& member : state.world->members) {
      step.evidence.push_back(member.key.node);
    }
  }
  if (!goes_on) {
    BeginDrain(step, StopCause::kHang, false);
    state.drain->hang = std::move(hang);
    state.drain->hang_ends_run = state.spec->on_hang == kHangFails;
  }
}

void EndWithSuccess(CoordinatorStepContext& step) {
  EndRun(step, Finish{Ending::kSucceeded, 0, "all workers finished", {}});
}

void ReportFromMember(CoordinatorStepContext& step, const NodeKey& key, const Member& member,
                      bool leaves, const NodeReport& report) {
  CoordinatorState& state = step.state;
  if (SpeaksOfWorld(report, *state.world)) {
    NoteProgress(state.budget, report);
    const bool seen = std::ranges::any_of(report.progress_groups, [](const ProgressGroup& group) {
      return group.source != ProgressSource::kTold;
    });
    ChangeMember(state, step.config, key, [&](Member& changed) {
      changed.hosted = true;
      NoteTimings(state.startups, changed, report.start_timings, seen);
      changed.succeeded |=
          report.hosting == Hosting::kNothing && report.outcome == Outcome::kSucceeded;
    });
    step.Say(StartupToTell(state.startups, state.budget.told));
  }
  const bool unfit = IsUnfit(report) && report.hosting == Hosting::kNothing &&
                     report.floor < state.world->generation;  // Since it was chosen.
  if (IsActive(state) && (leaves || unfit) && !member.succeeded) {
    BeginDrain(step, StopCause::kLeave, true);
  }
  // Also of a node that says that it hosts the world: it must not get a Run that it promised not to
  // run.
  const bool promised_away = report.floor >= state.world->generation && !member.succeeded;
  const bool failed = SpeaksOfWorld(report, *state.world) &&
                      (!report.failures.empty() || report.hosting == Hosting::kStopping);
  if (state.phase == Phase::kRunning && (promised_away || failed)) {
    BeginDrain(step, StopCause::kFailure, false);
    NoteDetected(state.startups, report.start_timings.detect, step.now);
  }
  if (state.phase == Phase::kRunning) {
    if (auto hang = LookForHang(state.hang, state, key, report, step.now)) {
      OnHang(step, *std::move(hang));
    }
  }
  if (state.phase == Phase::kDraining) {
    CollectEvidence(*state.drain, *state.world, key, report, step.config.run_bytes / 4, step.now);
  }
  // Also of a world that is being stopped: a node that succeeded may not have known yet.
  if (IsActive(state) && state.world->roll.unfinished.empty()) {
    EndWithSuccess(step);
  }
}

}  // namespace

void CoordinatorStepContext::Say(const std::optional<StartupLine>& line) {
  if (!line) {
    return;
  }
  const Startup& startup = line->startup;
  RunEvent& event = line->first
                        ? Say(kEventStarted, NoticeLevel::kDetail, line->text)
                        : Say(kEventRecovered,
                              line->quiet ? NoticeLevel::kDetail : NoticeLevel::kInfo, line->text);
  event.cause = startup.cause_word;
  event.generation = startup.generation;
  event.detect = startup.detect;
  event.stop = startup.stop;
  event.backoff = startup.backoff;
  event.form = startup.form;
  event.start = startup.start;
  event.state = startup.state;
  event.first_step = startup.first_step;
  event.lost = line->lost;
}

namespace {

std::string WhyItCannotStart(const NodeReport& report) {
  return "node " + report.node + " cannot start its workers: " + report.unfit;
}

}  // namespace

void TakeLateSuccess(CoordinatorStepContext& step, const NodeKey& key, const NodeReport& report) {
  CoordinatorState& state = step.state;
  const bool is_newest = state.phase == Phase::kDraining || state.phase == Phase::kGathering;
  if (!is_newest || !state.world || !SpeaksOfWorld(report, *state.world) ||
      report.hosting != Hosting::kNothing || report.outcome != Outcome::kSucceeded) {
    return;
  }
  if (const auto place = state.world->places.find(key); place != state.world->places.end()) {
    state.world->members[place->second].succeeded = true;
    Refile(state, step.config, key.node);
    const auto& unfinished = state.world->roll.unfinished;
    if (unfinished.empty()) {
      EndWithSuccess(step);
    }
  }
}

void NoteFitness(CoordinatorStepContext& step, const NodeReport& before, const NodeReport& report) {
  if (before.unfit.empty() == report.unfit.empty()) {
    return;
  }
  const bool unfit = !report.unfit.empty();
  if (CannotStart(report)) {
    RunEvent& event =
        step.Say(kEventUnfit, NoticeLevel::kWarning, WhyItCannotStart(report) + " [cannot-start]");
    event.node = report.node;
    event.reason = "a node cannot start its workers";
    return;
  }
  RunEvent& event =
      unfit ? step.Say(kEventUnfit, NoticeLevel::kWarning,
                       "node " + report.node + " is refused by its node check: " + report.unfit +
                           " [node-check]")
            : step.Say(kEventFit, NoticeLevel::kInfo,
                       "node " + report.node + " passes its node check again");
  event.node = report.node;
  event.reason =
      unfit ? "a node is refused by its node check" : "a node passes its node check again";
}

void NoteFacts(CoordinatorStepContext& step, const NodeReport& before, const NodeReport& report) {
  const auto bad_in = [](const HostFacts& facts, const std::string& name) {
    return std::ranges::any_of(facts,
                               [&](const HostFact& fact) { return fact.bad && fact.name == name; });
  };
  const auto say = [&](const char* kind, NoticeLevel level, const std::string& text) {
    RunEvent& event = step.Say(kind, level, "node " + report.node + ": " + text);
    event.node = report.node;
    event.reason = "the machine of a node";
  };
  for (const HostFact& fact : report.facts) {
    if (fact.bad && !bad_in(before.facts, fact.name)) {
      say(kEventFactBad, NoticeLevel::kWarning, fact.name + " " + fact.value);
    }
  }
  // Bad ones come first, so a list that is full of them may have had no room for others.
  const bool has_all = report.facts.size() < kMaxFacts || !report.facts.back().bad;
  for (const HostFact& fact : before.facts) {
    if (fact.bad && has_all && !bad_in(report.facts, fact.name)) {
      say(kEventFactGood, NoticeLevel::kInfo, fact.name + " is well again");
    }
  }
}

void EndRun(CoordinatorStepContext& step, Finish outcome) {
  step.Say(EndStartup(step.state.startups, step.now));
  const bool succeeded = outcome.ending == Ending::kSucceeded;
  step.Say(kEventEnded, NoticeLevel::kDetail,  // Nodes say it.
           succeeded                               ? "every worker finished"
           : outcome.exit_code == kExitInterrupted ? outcome.text
                                                   : "the run failed: " + outcome.text);
  step.state.joins_before_end = step.state.joins;
  step.Enter(succeeded ? Phase::kSucceeded : Phase::kFailed);
  step.state.outcome = std::move(outcome);
}

namespace {

void EndIfAloneAndUnfit(CoordinatorStepContext& step) {
  const std::set<NodeKey>& unfit = step.state.index.unfit;
  const std::string why = unfit.empty() ? "" : step.state.nodes.at(*unfit.begin()).report.unfit;
  if (step.config.alone && !why.empty()) {
    EndRun(step,
           Finish{Ending::kFailed,
                  kExitUnavailable,
                  "this run's only node is refused by its node check: " + why + " [node-check]",
                  {}});
  }
}

// Before the first world, as a later one may get another machine in the bad one's place. The nodes
// that are to come would find no server that tells them why, so they are waited for, until the bad
// node leaves.
void EndIfTooManyCannotStart(CoordinatorStepContext& step) {
  const CoordinatorState& state = step.state;
  const auto may_end = [&](std::size_t bad) {
    const RunSpec& spec = *state.spec;
    const bool too_many = bad + spec.min_nodes > spec.max_nodes;
    const bool all_here = bad + CountReady(state) >= spec.max_nodes;
    return too_many && (all_here || state.index.gives_up > 0);
  };
  if (HasEnded(state) || state.world || !may_end(state.index.cannot_start)) {
    return;  // Before the walk, which 10,000 nodes must not cause with each of their reports.
  }
  std::map<NodeId, std::string> bad;  // Two memberships of one node count once.
  for (const NodeKey& key : state.index.unfit) {
    const NodeReport& report = state.nodes.at(key).report;
    if (CannotStart(report)) {
      bad[key.node] = WhyItCannotStart(report);
    }
  }
  if (!may_end(bad.size())) {
    return;
  }
  std::string text;
  std::size_t named = 0;
  for (const auto& [node, why] : bad) {
    text += ++named > kMaxNamed ? "" : (text.empty() ? "" : "; ") + why;
  }
  text += bad.size() > kMaxNamed ? "; ..." : "";
  EndRun(step, Finish{Ending::kFailed, kExitUsage, text + " [cannot-start]", {}});
}

}  // namespace

void TryForm(CoordinatorStepContext& step) {
  CoordinatorState& state = step.state;
  if (state.phase != Phase::kGathering || !state.spec) {
    return;
  }
  const std::uint32_t ready = CountReady(state);
  if (ready < state.spec->min_nodes) {
    state.last_call.reset();
    EndIfAloneAndUnfit(step);
    EndIfTooManyCannotStart(step);
    return;
  }
  if (state.budget.next_start && step.now < *state.budget.next_start) {
    return;
  }
  // A node that trained before keeps its place where its check lets it, for as long as a last call
  // lasts.
  const bool whole = ready >= state.spec->max_nodes
                         ? !state.world || state.world->roll.checking.empty()
                         : state.world && state.index.coming == 0;
  if (!whole) {
    if (!state.last_call) {
      state.last_call = step.now + state.spec->last_call;
    }
    if (step.now < *state.last_call) {
      return;
    }
  }
  if (ClaimIsInDoubt(state, step.now)) {
    return;
  }
  state.last_call.reset();
  state.drain.reset();
  ChangeAll(state, step.config, [&](Roster& roster) {
    roster.world = MakeWorld(state, step.config, state.newest, ChooseMembers(state), step.now);
  });
  state.newest = state.world->generation;
  if (!state.startups.open) {
    BeginStartup(state.startups,
                 state.recovery.entered ? "a new server found no world" : "first start", "start",
                 state.since);
  }
  NoteFormed(state.startups, *state.world, state.budget.next_start, step.now);
  NoteStart(state.budget, step.now);  // Ends the pause.
  ++state.worlds_formed;
  step.Enter(Phase::kRunning);
  step.Say(kEventFormed, NoticeLevel::kDetail, "formed " + Describe(*state.world));
}

void JudgeIfDrained(CoordinatorStepContext& step) {
  CoordinatorState& state = step.state;
  if (state.phase != Phase::kDraining || !state.world->roll.undrained.empty()) {
    return;
  }
  // Also a node that had succeeded: it may have hosted the store.
  const bool lost = !state.world->roll.lost.empty();
  state.drain->membership |= lost;
  const Judgement judgement = JudgeWithinBudget(state.budget, *state.drain, *state.spec, step.now);
  if (judgement.outcome) {
    EndRun(step, *judgement.outcome);
    return;
  }
  if (judgement.charged) {
    const std::string why =
        judgement.root ? Describe(*judgement.root) : state.drain->spawn_failures.front();
    const std::string word = WordOf(state.drain->hang ? StopCause::kHang : StopCause::kFailure);
    NoteStopped(state.startups, why, word, step.from, step.now);
    step.Say(kEventRestarting, NoticeLevel::kWarning,
             "restarting all workers (" + RestartsInWords(state.budget, *state.spec, step.now) +
                 "): " + why + (state.drain->hang ? " [workers-hang]" : " [worker-failed]"))
        .cause = word;
  } else {
    const StopCause cause = state.drain->cause == StopCause::kFailure && lost
                                ? StopCause::kNodeLost  // The failure was its consequence.
                                : state.drain->cause;
    const std::string why = judgement.excused
                                ? Describe(*judgement.root) + ": it asks to be started again"
                                : Describe(cause);
    const bool fewer = cause == StopCause::kNodeLost || cause == StopCause::kLeave;
    const std::size_t staying = StayingNodes(state);
    const char* const next = staying < state.spec->min_nodes
                                 ? "too few nodes are left, waiting for more"
                             : fewer ? "restarting the remaining workers"
                                     : "restarting all workers";
    const std::string then =
        staying == 0 ? "no node is left" : std::string(next) + " (does not use a restart)";
    NoteStopped(state.startups, why, WordOf(cause), step.from, step.now);
    step.Say(kEventStopped, NoticeLevel::kInfo, why + ": " + then).cause = WordOf(cause);
  }
  step.Enter(Phase::kGathering);
  TryForm(step);
}

void BeginDrain(CoordinatorStepContext& step, StopCause cause, bool membership) {
  CoordinatorState& state = step.state;
  if (state.phase == Phase::kDraining) {
    state.drain->membership |= membership;
    if (cause == StopCause::kOperator) {
      state.drain->cause = cause;
      ++state.edition;
    } else if (cause == StopCause::kNodeLost && IsPlanned(state.drain->cause) &&
               state.drain->cause != StopCause::kOperator) {
      state.drain->cause = cause;  // Its peers' ranks are blocked: the long grace would be of no
                                   // use.
      state.drain->began = step.now;
      ++state.edition;
    }
    return;
  }
  state.drain = Drain{.cause = cause,
                      .began = step.now,
                      .membership = membership,
                      .planned = IsPlanned(cause),
                      .evidence = {},
                      .told = {},
                      .spawn_failures = {},
                      .hang = {}};
  step.Enter(Phase::kDraining);
  step.Say(BeginStartup(state.startups, Describe(cause), WordOf(cause), step.now));
  step.Say(kEventStopping, NoticeLevel::kDetail,
           "stopping generation " + std::to_string(state.world->generation.value) + ": " +
               Describe(cause))
      .cause = WordOf(cause);
}

void StopRun(CoordinatorStepContext& step, bool interrupts) {
  if (IsActive(step.state)) {
    BeginDrain(step, StopCause::kOperator, true);
    step.state.drain->interrupts |= interrupts;
  } else {
    EndRun(step, StoppedOnRequest());
  }
}

void GoOn(CoordinatorStepContext& step) {
  CoordinatorState& state = step.state;
  JudgeIfDrained(step);
  TryForm(step);
  const bool may_stop = state.phase == Phase::kRunning && !ClaimIsInDoubt(state, step.now);
  if (const auto arrivals = ConsiderGrowth(state.growth, state, may_stop, step.config, step.now)) {
    step.Say(kEventJoins, NoticeLevel::kInfo, *arrivals);
    BeginDrain(step, StopCause::kScaleUp, true);
  }
}

void ActOnReport(CoordinatorStepContext& step, const NodeKey& key, const NodeReport& report) {
  CoordinatorState& state = step.state;
  Leaving& leaving = state.nodes.at(key).report.leaving;
  if (leaving == Leaving::kStopRun) {
    if (!MayStopRun(state, state.phase == Phase::kGathering, key)) {
      leaving = Leaving::kLeave;
    } else if (StopRun(step, report.interrupted); HasEnded(state)) {
      return;
    }
  }
  if (const Member* const member = FindMember(state, key)) {
    ReportFromMember(step, key, *member, leaving == Leaving::kLeave, report);
  }
  GoOn(step);
}

void Lose(CoordinatorStepContext& step, const NodeKey& key, const std::string& why) {
  CoordinatorState& state = step.state;
  const Duration remembered = RememberedFor(state, step.config);
  LeavePlace(state.recovery, key);
  Change(state, step.config, key, [&](NodeState& node) {
    node.lost = true;
    node.member_lost |= FindMember(state, key) != nullptr;
    node.forget = node.expires + remembered;
  });
  ++state.edition;
  const NodeState& node = state.nodes.at(key);
  const Member* const member = FindMember(state, key);
  if (!node.acknowledged) {
    RunEvent& event = step.Say(kEventLost, NoticeLevel::kWarning,
                               "node " + key.node + " is lost: " + why + " [node-lost]");
    event.node = key.node;
    event.reason = member != nullptr ? "" : "a node in no world is lost";
    NoteLoss(state.growth, key.node, step.now);
  }
  if (member == nullptr) {
    return;
  }
  const bool mattered = !member->succeeded;
  ChangeMember(state, step.config, key, [&](Member& lost) {
    if (mattered && !IsDrained(state, lost)) {
      lost.fence = FenceFrom(state.spec, node.heard, step.now);
    }
    lost.lost = true;
  });
  if (member->fence) {
    step.Say(kEventFenced, NoticeLevel::kInfo,
             "node " + key.node + " will not be replaced for " +
                 FormatDuration(std::chrono::floor<Duration>(*member->fence - step.now)) +
                 ": its workers may still be running (--fence-after)")
        .node = key.node;
  }
  if (mattered && IsActive(state)) {
    BeginDrain(step, StopCause::kNodeLost, true);
    const Time silent = node.cancelled && !node.lease_decides ? *node.cancelled : node.heard;
    NoteDetected(state.startups, std::chrono::round<Duration>(step.now - silent), step.now);
  }
}

}  // namespace ddprun
