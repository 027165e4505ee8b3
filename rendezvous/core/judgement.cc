#include "rendezvous/core/judgement.h"

#include <algorithm>
#include <string_view>

#include "common/exit_code.h"
#include "common/slug.h"
#include "rendezvous/core/bytes.h"
#include "rendezvous/core/permanent_error.h"
#include "rendezvous/messages/describe.h"

namespace ddprun {
namespace {

using std::chrono_literals::operator""s;

constexpr int kSigAbort = 6;  // POSIX numbers; <signal.h> stays out of the core.
constexpr int kSigKill = 9;

// The agent notices a worker's end later than the peers do: its connections close first, then its
// memory and GPU are freed.
constexpr Duration kEndNoticed = 1s;
constexpr Duration kAbortNoticed{100};

// With `--max-restarts=5` the last start is 30 s after the second one: 2 + 4 + 8 + 16.
constexpr Duration kFirstBackoff{2'000};

bool SaysDoNotRestart(const WorkerFailure& failure) {
  return failure.said_hello && failure.status == ExitStatus(Exited{kExitDoNotRestart});
}

bool AsksForRestart(const WorkerFailure& failure) {
  return failure.said_hello && failure.status == ExitStatus(Exited{kExitRestart});
}

// A worker's "restart me" is not passed on: a scheduler would requeue the run for ever.
int ExitCodeOf(const WorkerFailure& root) {
  if (!root.hang.empty()) {
    return kExitHung;  // Not 137: ddprun itself has killed it.
  }
  if (root.recorded && root.stopped_by_us && std::holds_alternative<Killed>(root.status)) {
    return 1;  // The code of an exception, with which it would have ended by itself.
  }
  return IsCollateral(root) && std::holds_alternative<Exited>(root.status) ? 1
                                                                           : ShellCode(root.status);
}

// Whether the error with which it failed, its record, else the end of its stderr from the last
// traceback on, is the consequence of a peer's end, which may be noticed later than it is made.
bool LostAPeer(const WorkerFailure& failure) {
  const std::string_view lines = failure.last_lines;
  const std::size_t begin = lines.rfind("Traceback (most recent call last)");
  return SaysPeerWasLost(failure.recorded ? failure.details.message
                                          : lines.substr(begin == lines.npos ? 0 : begin));
}

// Whether `e` died of a signal early enough to be the reason why `first` failed. A worker that has
// recorded an error failed at that time, even if it then died of a signal: many programs abort at
// their end.
bool KilledBefore(const Evidence& e, const Evidence& first) {
  const Killed* const killed = std::get_if<Killed>(&e.failure.status);
  if (killed == nullptr || e.failure.recorded || IsCollateral(e.failure)) {
    return false;
  }
  const bool follows = killed->signal == kSigAbort && first.failure.recorded && e.key == first.key;
  return e.when <= first.when + (follows ? kAbortNoticed : kEndNoticed);
}

// Whether it was stopped while it ended because of an error of its own: what runs at its exit may
// take longer than the peers take to notice.
bool WasStoppedAfterItsError(const Evidence& e) {
  return IsCollateral(e.failure) && !ExceptionOf(e.failure).empty() && !LostAPeer(e.failure);
}

// The worker that was found lagging, with the way in which it ended once it was killed.
WorkerFailure HungWorker(const Drain& drain) {
  WorkerFailure root = *drain.hang;
  for (const Evidence& evidence : drain.evidence) {
    if (evidence.failure.rank == root.rank) {
      root = evidence.failure;
      root.hang = drain.hang->hang;
      root.nobody_lags = drain.hang->nobody_lags;
    }
  }
  return root;
}

bool HasWindow(const RunSpec& spec) {
  return spec.restart_window > Duration{0};
}

bool Counts(const RunSpec& spec, Time when, Time now) {
  return now - when < spec.restart_window;
}

std::uint32_t Used(const Budget& budget, const RunSpec& spec, Time now) {
  if (!HasWindow(spec)) {
    return budget.used;
  }
  const auto& charged = budget.charged;
  return static_cast<std::uint32_t>(std::count_if(
      charged.begin(), charged.end(), [&](Time when) { return Counts(spec, when, now); }));
}

// Counts this incident if it brought no higher step. True: there are too many in a row.
bool IsCrashLoop(Budget& budget, const RunSpec& spec) {
  const bool progress = budget.highest > budget.reached;
  budget.reached = budget.highest;
  budget.stuck = progress ? 1 : budget.stuck + 1;
  return budget.told && spec.crash_loop_limit > 0 && budget.stuck >= spec.crash_loop_limit;
}

// Whether the world that is drained has made progress.
bool HasWorked(const Budget& budget, Time now) {
  return budget.worked || now - budget.formed >= kALongLife;
}

// Counts equal permanent errors in a row. True: there are too many.
bool IsPermanent(Budget& budget, const RunSpec& spec, const Drain& drain,
                 const Judgement& judgement, Time now) {
  const std::string error = judgement.root                  ? PermanentError(*judgement.root)
                            : !drain.spawn_failures.empty() ? drain.spawn_failures.front()
                                                            : "";
  const bool counts = !error.empty() && !HasWorked(budget, now);
  budget.same_error = counts && error == budget.error ? budget.same_error + 1 : 1;
  budget.error = counts ? error : "";
  return counts && spec.crash_loop_limit > 0 && budget.same_error >= spec.crash_loop_limit;
}

bool WasKilledByOthers(const Judgement& judgement) {
  return judgement.root && judgement.root->hang.empty() &&
         judgement.root->status == ExitStatus(Killed{kSigKill});
}

// Counts the incidents in a row without progress, and decides when the next world may form.
void SpaceOut(Budget& budget, const RunSpec& spec, const Judgement& judgement, Time now) {
  budget.next_start.reset();
  if (WasKilledByOthers(judgement)) {
    return;
  }
  budget.fruitless = HasWorked(budget, now) ? 0 : budget.fruitless + 1;
  if (budget.fruitless < 2 || spec.restart_backoff == Duration{0}) {
    return;
  }
  Duration spacing = kFirstBackoff;
  for (std::uint32_t i = 2; i < budget.fruitless && spacing < spec.restart_backoff; ++i) {
    spacing *= 2;
  }
  const Time start = budget.formed + std::min(spacing, spec.restart_backoff);
  if (start > now) {
    budget.next_start = start;
  }
}

Finish CrashLoop(const Budget& budget, const Drain& drain, const Judgement& judgement,
                 bool permanent) {
  const std::string what =
      judgement.root ? Describe(*judgement.root) : drain.spawn_failures.front();
  const std::string how = permanent ? "; the workers failed " + std::to_string(budget.same_error) +
                                          " times in a row with the same error and without progress"
                                    : "; the workers failed " + std::to_string(budget.stuck) +
                                          " times in a row without getting beyond step " +
                                          std::to_string(budget.highest);
  return Finish{Ending::kFailed, kExitDoNotRestart,
                what + how + ", so another restart would not help (--crash-loop-limit)" +
                    (permanent ? " [same-error]" : " [crash-loop]"),
                judgement.root, true};
}

}  // namespace

void CollectEvidence(Drain& drain, const World& world, const NodeKey& key, const NodeReport& report,
                     std::size_t most_bytes, Time now) {
  if (drain.planned || IsPlanned(drain.cause) || !SpeaksOfWorld(report, world)) {
    return;  // Failures after the beginning of a planned stop are its consequence.
  }
  std::vector<std::size_t>& places = drain.told[key];
  Time first = now;
  const std::size_t again = std::min(places.size(), report.failures.size());
  for (std::size_t i = 0; i < again; ++i) {
    first = std::min(first, drain.evidence[places[i]].when);
    drain.bytes -= BytesOf(drain.evidence[places[i]].failure);
  }
  for (std::size_t i = 0; i < report.failures.size(); ++i) {
    const WorkerFailure& failure = report.failures[i];
    if (i == places.size()) {
      places.push_back(drain.evidence.size());
      drain.evidence.emplace_back();
    }
    drain.evidence[places[i]] = {key, failure, first + failure.after};
    WorkerFailure& kept = drain.evidence[places[i]].failure;
    const bool lags = drain.hang && drain.hang->rank == failure.rank;  // Its texts are needed most.
    if (!lags && drain.bytes + BytesOf(kept) > most_bytes) {
      DropTexts(kept);
    }
    drain.bytes += BytesOf(kept);
  }
  if (!report.spawn_failure.empty() && drain.spawn_failures.size() < kMostSpawnFailures) {
    const std::string text = key.node + ": " + report.spawn_failure;
    if (std::find(drain.spawn_failures.begin(), drain.spawn_failures.end(), text) ==
        drain.spawn_failures.end()) {
      drain.spawn_failures.push_back(text);
    }
  }
}

std::optional<WorkerFailure> RootCause(const std::vector<Evidence>& evidence) {
  std::vector<Evidence> sorted = evidence;
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const Evidence& a, const Evidence& b) { return a.when < b.when; });
  const auto own = [](const Evidence& e) { return !IsCollateral(e.failure); };
  auto first = std::find_if(sorted.begin(), sorted.end(), own);
  if (first == sorted.end()) {
    return sorted.empty() ? std::nullopt : std::optional(sorted.front().failure);
  }
  const auto lost = std::find_if(first, sorted.end(), [&](const Evidence& e) {
    return own(e) && !LostAPeer(e.failure) && e.when <= first->when + kEndNoticed;
  });
  if (LostAPeer(first->failure)) {
    const auto failed = std::find_if(sorted.begin(), sorted.end(), WasStoppedAfterItsError);
    if (lost == sorted.end() && failed != sorted.end()) {
      failed->failure.recorded = true;
      return failed->failure;
    }
    first = lost != sorted.end() ? lost : first;
  }
  const auto killed =
      std::find_if(first, sorted.end(), [&](const Evidence& e) { return KilledBefore(e, *first); });
  return killed == sorted.end() ? first->failure : killed->failure;
}

bool AllAskForRestart(const Drain& drain) {
  const auto consequence = [](const Evidence& e) {
    return IsCollateral(e.failure) && e.failure.status != ExitStatus(Killed{kSigKill}) &&
           !SaysDoNotRestart(e.failure);
  };
  return drain.cause != StopCause::kOperator && !drain.membership && !drain.hang &&
         drain.spawn_failures.empty() &&
         std::any_of(drain.evidence.begin(), drain.evidence.end(),
                     [](const Evidence& e) { return AsksForRestart(e.failure); }) &&
         std::all_of(drain.evidence.begin(), drain.evidence.end(), consequence);
}

Finish StoppedOnRequest() {
  return {Ending::kFailed, kExitInterrupted, "the run was stopped on request", {}};
}

Judgement Judge(const Drain& drain, std::uint32_t restarts_used, std::uint32_t max_restarts) {
  Judgement judgement;
  if (drain.cause == StopCause::kOperator) {
    judgement.outcome = StoppedOnRequest();
    return judgement;
  }
  judgement.root = drain.hang ? std::optional(HungWorker(drain)) : RootCause(drain.evidence);
  if (judgement.root && !drain.hang && IsCollateral(*judgement.root) &&
      !drain.spawn_failures.empty()) {
    judgement.root.reset();  // It was stopped because another node could not start its workers.
  }
  const auto last_word =
      std::find_if(drain.evidence.begin(), drain.evidence.end(),
                   [](const Evidence& e) { return SaysDoNotRestart(e.failure); });
  if (last_word != drain.evidence.end() && !drain.perhaps_stale) {
    judgement.root = last_word->failure;
    judgement.outcome = Finish{Ending::kFailed, kExitDoNotRestart,
                               Describe(last_word->failure) + ": it asks not to be restarted",
                               last_word->failure, true};
    return judgement;
  }
  if (drain.membership) {
    return judgement;
  }
  if (!judgement.root && drain.spawn_failures.empty()) {
    return judgement;
  }
  judgement.charged = true;
  if (restarts_used < max_restarts && !drain.hang_ends_run) {
    return judgement;
  }
  const std::string budget =
      drain.hang_ends_run ? "; a hang ends this run (--on-hang=fail) [workers-hang]"
      : max_restarts == 0
          ? "; no restarts are allowed (--max-restarts) [no-restarts-left]"
          : "; " + std::to_string(max_restarts) + " of " + std::to_string(max_restarts) +
                " restarts are used [no-restarts-left]";
  if (judgement.root) {
    judgement.outcome = Finish{Ending::kFailed, ExitCodeOf(*judgement.root),
                               Describe(*judgement.root) + budget, judgement.root, true};
  } else {
    judgement.outcome = Finish{Ending::kFailed, 1, drain.spawn_failures.front() + budget, {}, true};
  }
  judgement.charged = false;
  return judgement;
}

void NoteStart(Budget& budget, Time now) {
  budget.formed = now;
  budget.worked = false;
  budget.next_start.reset();
}

void NoteProgress(Budget& budget, const NodeReport& report) {
  budget.told |= report.progress > 0;
  budget.highest = std::max(budget.highest, report.progress);
  budget.worked |= report.progress > 0 ||
                   std::ranges::any_of(report.progress_groups,
                                       [](const ProgressGroup& group) { return group.step > 0; });
}

Judgement JudgeWithinBudget(Budget& budget, const Drain& drain, const RunSpec& spec, Time now) {
  const bool asks = AllAskForRestart(drain);
  const bool excused = asks && budget.may_excuse;
  budget.may_excuse = !asks;
  Judgement judgement = Judge(drain, Used(budget, spec, now), spec.max_restarts);
  if (excused) {
    judgement.charged = false;
    judgement.excused = true;
    judgement.outcome.reset();
  }
  if (judgement.outcome && HasWindow(spec) && !budget.charged.empty()) {
    judgement.outcome->text = Continue(
        judgement.outcome->text, " (--restart-window=" + FormatDuration(spec.restart_window) + ")");
  }
  if (!judgement.charged && !judgement.excused) {
    return judgement;
  }
  const bool stuck = IsCrashLoop(budget, spec);
  const bool permanent = IsPermanent(budget, spec, drain, judgement, now);
  if (stuck || permanent) {
    judgement.charged = false;
    judgement.excused = false;
    judgement.outcome = CrashLoop(budget, drain, judgement, !stuck);
    return judgement;
  }
  if (judgement.excused) {
    return judgement;
  }
  SpaceOut(budget, spec, judgement, now);
  ++budget.used;
  if (HasWindow(spec)) {
    std::erase_if(budget.charged, [&](Time when) { return !Counts(spec, when, now); });
    budget.charged.push_back(now);
  }
  return judgement;
}

std::string RestartsInWords(const Budget& budget, const RunSpec& spec, Time now) {
  const std::string window =
      HasWindow(spec) ? " within " + FormatDuration(spec.restart_window) : "";
  return std::to_string(Used(budget, spec, now)) + " of " + std::to_string(spec.max_restarts) +
         window;
}

}  // namespace ddprun
