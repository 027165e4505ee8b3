#include "rendezvous/core/judgement.h"

#include <algorithm>

#include "rendezvous/core/describe.h"

namespace ddprun {
namespace {

using std::chrono_literals::operator""s;

constexpr int kDoNotRestart = 76;
constexpr int kInterrupted = 130;
constexpr int kHung = 124;
constexpr int kSigAbort = 6;  // POSIX number; <signal.h> stays out of the core.

// A killed worker's end is noticed later than its peers notice it: its memory and GPU go first.
constexpr Duration kSignalNoticed = 1s;
constexpr Duration kAbortNoticed{100};

bool SaysDoNotRestart(const WorkerFailure& failure) {
  return failure.said_hello && failure.status == ExitStatus(Exited{kDoNotRestart});
}

// A worker's "restart me" is not passed on: a scheduler would requeue the run for ever.
int ExitCodeOf(const WorkerFailure& root) {
  if (!root.hang.empty()) {
    return kHung;  // Not 137: nobody but us has killed it.
  }
  if (root.recorded && root.stopped_by_us && std::holds_alternative<Killed>(root.status)) {
    return 1;  // As an exception ends a program, had we let it.
  }
  return IsCollateral(root) && std::holds_alternative<Exited>(root.status) ? 1
                                                                           : ShellCode(root.status);
}

// `e` died of a signal, early enough to be why `first` failed. Who recorded an error failed then,
// however it ended: many a program aborts on its way out.
bool KilledBefore(const Evidence& e, const Evidence& first) {
  const Killed* const killed = std::get_if<Killed>(&e.failure.status);
  if (killed == nullptr || e.failure.recorded || IsCollateral(e.failure)) {
    return false;
  }
  const bool follows = killed->signal == kSigAbort && first.failure.recorded && e.key == first.key;
  return e.when <= first.when + (follows ? kAbortNoticed : kSignalNoticed);
}

// Who was found lagging, and how that worker ended once it was killed.
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

}  // namespace

std::optional<WorkerFailure> RootCause(const std::vector<Evidence>& evidence) {
  std::vector<Evidence> sorted = evidence;
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const Evidence& a, const Evidence& b) { return a.when < b.when; });
  const auto own = [](const Evidence& e) { return !IsCollateral(e.failure); };
  const auto first = std::find_if(sorted.begin(), sorted.end(), own);
  if (first == sorted.end()) {
    return sorted.empty() ? std::nullopt : std::optional(sorted.front().failure);
  }
  const auto killed =
      std::find_if(first, sorted.end(), [&](const Evidence& e) { return KilledBefore(e, *first); });
  return killed == sorted.end() ? first->failure : killed->failure;
}

Judgement Judge(const Drain& drain, std::uint32_t restarts_used, std::uint32_t max_restarts) {
  Judgement judgement;
  if (drain.cause == StopCause::kOperator) {
    judgement.outcome = Finish{Ending::kFailed, kInterrupted, "the run was stopped on request", {}};
    return judgement;
  }
  judgement.root = drain.hang ? std::optional(HungWorker(drain)) : RootCause(drain.evidence);
  const auto last_word =
      std::find_if(drain.evidence.begin(), drain.evidence.end(),
                   [](const Evidence& e) { return SaysDoNotRestart(e.failure); });
  if (last_word != drain.evidence.end()) {
    judgement.root = last_word->failure;
    judgement.outcome = Finish{Ending::kFailed, kDoNotRestart,
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
  if (restarts_used < max_restarts) {
    return judgement;
  }
  const std::string budget = max_restarts == 0
                                 ? "; no restarts are allowed (--max-restarts)"
                                 : "; " + std::to_string(max_restarts) + " of " +
                                       std::to_string(max_restarts) + " restarts are used";
  if (judgement.root) {
    judgement.outcome = Finish{Ending::kFailed, ExitCodeOf(*judgement.root),
                               Describe(*judgement.root) + budget, judgement.root, true};
  } else {
    judgement.outcome = Finish{Ending::kFailed, 1, drain.spawn_failures.front() + budget, {}, true};
  }
  judgement.charged = false;
  return judgement;
}

}  // namespace ddprun
