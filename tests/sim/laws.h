// Forbidden in any history, under any faults: checked at every step.
//
// Looks at the coordinator's state and at the simulated processes; changes neither. Workers run
// until "(its workers are gone)". Those of a node that was declared lost are exempt where two
// worlds are compared, since fences hold them back; not with --fence-after, which kills them in
// time.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "rendezvous/core/coordinator.h"
#include "tests/sim/event_queue.h"
#include "tests/sim/transcript.h"

namespace ddprun::sim {

// A generation's processes on one machine, from spawn until all are gone.
struct LiveWorkers {
  NodeKey key;  // The membership that started them.
  Placement placement;
  std::uint32_t workers = 0;
  bool outlives_kill = false;  // Some of them does.
};

class Laws {
 public:
  // The first law that was broken; the simulation stops there.
  const std::optional<std::string>& broken() const { return broken_; }
  template <class... Parts>
  void Break(const Parts&... parts) {
    if (!broken_) {
      broken_ = Words(parts...);
    }
  }
  // One law: what is wrong with whom, where it is `broken`.
  template <class... Parts>
  void BreakIf(bool broken, const Parts&... parts) {
    if (broken) {
      Break(parts...);
    }
  }

  // Around each Step of the coordinator.
  // `deluded`: of a server whose machine, its clock too, stood still a moment ago.
  void BeforeStep(const CoordinatorState& state, bool deluded) {
    deluded_ = deluded;
    world_before_ = state.world;
    restarts_before_ = state.budget.used;
    next_start_before_ = state.budget.next_start;
    phase_before_ = state.phase;
    planned_before_ = state.drain && state.drain->planned;
  }
  void AfterStep(const CoordinatorState& state, const CoordinatorConfig& config, bool ticked,
                 Time now);
  const std::optional<World>& world_before() const { return world_before_; }
  void OnDirective(const CoordinatorState& state, const NodeKey& key, const Directive& directive);

  // Machines go by their host's name: two of them may claim to be the same node.
  void OnSpawn(const std::string& host, const LiveWorkers& spawned);
  // The opinion of that server now.
  void OnTold(const CoordinatorState& state, const std::string& host, const LiveWorkers& spawned);
  void OnGone(const std::string& host) { live_.erase(host); }
  // Some of its workers will not end when they are killed.
  void OnStuck(const std::string& host) { live_[host].outlives_kill = true; }
  // Its agent stands still: it cannot kill its workers in time.
  void OnPause(const std::string& host) { ever_paused_.insert(host); }
  void OnExit(const std::string& host, const NodeId& node, const std::optional<Finish>& finish);
  // No process spins: `who` has been woken at `now`.
  void OnWoken(const std::string& who, Time now, std::uint64_t limit) {
    WakeRate& rate = wake_rates_[who];
    const auto second = std::chrono::floor<std::chrono::seconds>(now.time_since_epoch()).count();
    rate.count = rate.second == second ? rate.count + 1 : 1;
    rate.second = second;
    BreakIf(rate.count > limit, who, " spins: woken more than ", limit, " times in one second");
  }
  // In calm weather no live node is taken for lost, and no world for hung in which no rank hangs.
  // Where messages are delayed for longer than any timeout it may happen.
  bool losses_forbidden = false;
  std::uint64_t lost = 0;  // Those that had not acknowledged the end.
  void OnFalseHang() {
    BreakIf(losses_forbidden, "a world was stopped as hung in which no worker hangs");
  }

  // Several may serve at once, each with a world of its own; fences keep one of them harmless.
  void OnReign(Term term) { BreakIf(!terms_.insert(term).second, "two servers have term ", term); }
  void AllowSplits() { splits_ = history_lost = true; }
  std::uint64_t terms() const { return terms_.size(); }

  // ---- A server that dies ----
  // Some server has closed its claim since the run has ended.
  bool run_forgotten = false;
  void OnServerStart(Time now) {
    server_started_ = now;
    formed_.clear();
  }
  // The server that knew how the run ended has forgotten it: who comes now begins another one.
  void OnOutcomeForgotten() {
    outcome_.reset();
    told_.reset();
    OnAnotherRun();
  }
  // A server answers this node how the run has ended.
  void OnOutcomeAnswered(const NodeKey& key) { answered_in_[key] = runs_; }
  // The agent of this node has ended with the run of that term: these lives of machines have heard
  // of it. An answer that was on its way while another run began is about the run before.
  using Lives = std::set<std::pair<std::string, std::uint64_t>>;
  void OnOutcomeTold(Term term, const NodeKey& key, const Lives& lives) {
    if (term >= another_run_ && answered_in_[key] == runs_) {
      knew_.insert(lives.begin(), lives.end());
    }
  }
  // A node that knows nothing of it begins another run.
  void OnAnotherRun(Term term = {}) {
    ++runs_;
    another_run_ = std::max(another_run_, term);
    knew_.clear();
  }
  // Not where a server without a claim dies, or its claim is lost.
  bool outcomes_last = true;
  // A world is formed with this one.
  void CheckRunsAgain(const std::string& host, std::uint64_t life) {
    BreakIf(outcomes_last && knew_.contains({host, life}), host,
            " is to run again, though its run has ended and a node was told how");
  }
  // A server dies, or starts again, without a claim: one outcome for all is not promised then.
  bool history_lost = false;

 private:
  struct WorldFacts {
    Placement shared;  // The values on which every member must agree.
    std::map<std::uint32_t, NodeId> rank_owner;
  };
  struct WakeRate {
    std::int64_t second = 0;
    std::uint64_t count = 0;
  };

  void CheckName(Term term, Generation generation, WorldId id) {
    const auto known = names_.emplace(std::pair(term, generation), id).first;
    BreakIf(known->second != id, "two worlds have the name term ", term, ", generation ",
            generation);
  }
  void CheckOneWorld(const CoordinatorState& state, const CoordinatorConfig& config, Time now);
  void NoteRecovered(const CoordinatorState& state, Time lease_over, Time now);
  void CheckOutcome(const CoordinatorState& state);
  void CheckBudget(const CoordinatorState& state, Time now);
  void CheckWindow(const CoordinatorState& state, const CoordinatorConfig& config, Time now);
  void CheckGrowth(const CoordinatorState& state);

  std::optional<std::string> broken_;
  std::optional<World> world_before_;
  std::uint32_t restarts_before_ = 0;
  std::optional<Time> next_start_before_;
  bool planned_before_ = false;
  bool deluded_ = false;
  std::vector<Time> charges_;  // Under the server of this term: another one knows none of them.
  Term charged_by_;
  Phase phase_before_ = Phase::kGathering;
  std::set<NodeKey> ever_lost_;
  std::set<std::pair<NodeKey, WorldId>> lost_in_;  // While that world was the current one.
  std::set<std::string> ever_paused_;
  std::set<WorldId> formed_;  // By the server that lives now.
  bool splits_ = false;
  std::set<Term> terms_;
  std::map<std::pair<Term, Generation>, WorldId> names_;
  Time server_started_;
  std::set<NodeId> exited_;  // Their agents ended by themselves: silence is no fault.
  std::map<NodeId, LiveWorkers> live_;
  std::map<WorldId, WorldFacts> worlds_;
  std::map<std::string, WakeRate> wake_rates_;
  Lives knew_;
  Term another_run_;
  std::uint64_t runs_ = 0;  // Of that name, before the one of now.
  std::map<NodeKey, std::uint64_t> answered_in_;
  std::optional<Finish> told_;     // By this run's servers.
  std::optional<Finish> outcome_;  // Reported by the first agent that ended with the run.
};

}  // namespace ddprun::sim
