#include "tests/sim/server.h"

#include <algorithm>
#include <utility>

#include "rendezvous/core/describe.h"
#include "rendezvous/core/node_index.h"
#include "rendezvous/core/record.h"
#include "rendezvous/core/recovery.h"
#include "tests/sim/machine.h"
#include "tests/sim/simulation.h"

namespace ddprun::sim {

constexpr std::uint64_t kServerPace = 4'000;  // Wake-ups per simulated second.

Server::Server(Simulation& simulation, std::optional<std::uint32_t> host)
    : simulation_(simulation),
      host_(host),
      name_(host ? "server" + std::to_string(*host) : "server") {
  config_.term = {7};
  config_.seed = simulation.random.Next();
  config_.stop_grace = Duration{2'000};
  config_.shutdown_timeout = Duration{4'000};
  config_.start_timeout = Duration{5'000};
  if (simulation.setup.mutation.no_disconnect_grace) {
    config_.disconnect_grace = Duration{0};
  }
  config_.journal = simulation.setup.journal;
  config_.run_bytes = simulation.setup.run_bytes.value_or(config_.run_bytes);
  highest_term_ = config_.term;
  state_.run_id = "run";
  if (host_) {
    up_ = false;
    life_ = 0;
    config_.journal = false;
  }
}

// What was sent while nobody was there was tried anew.
bool Server::IsTo(std::uint64_t life) const {
  return up_ && (life == life_ || life % 2 == 0);
}

void Server::OnCall(const NodeReport& report, std::uint64_t life, Answer answer) {
  if (!IsTo(life)) {
    answer(std::nullopt);
    return;
  }
  if (paused_) {
    inbox_.push_back([this, report, answer] { Accept(report, answer); });
    return;
  }
  Accept(report, std::move(answer));
}

void Server::OnClosed(const NodeKey& key, std::uint64_t sequence, std::uint64_t life) {
  if (!IsTo(life)) {
    return;
  }
  if (paused_) {
    inbox_.push_back([this, key, sequence] { Close(key, sequence); });
    return;
  }
  Close(key, sequence);
}

void Server::Accept(NodeReport report, Answer answer) {
  const NodeKey key{report.node, report.incarnation};
  const Mutation& mutation = simulation_.setup.mutation;
  if (succeeds_) {
    succeeds_ = false;
    RunRecord unknown;
    unknown.run_id = state_.run_id;
    state_ = Restore(unknown, simulation_.agenda.Now());
    state_.claim_good = claim_good_;
  }
  if (on_later_term_ && ReignAfter(config_.term, report.term) != config_.term) {
    answer(std::nullopt);
    on_later_term_(report.term);
    return;
  }
  config_.term = ReignAfter(config_.term, report.term);
  highest_term_ = std::max(highest_term_, config_.term);
  if (mutation.believe_old_reports) {
    report.sequence = ++arrivals_[key];
  }
  if (!IsNewest(state_, report)) {
    answer(std::nullopt);
    return;
  }
  if (const auto overtaken = parked_.find(key); overtaken != parked_.end()) {
    overtaken->second.answer(std::nullopt);
    parked_.erase(overtaken);
  }
  const bool own_beat = report.term == config_.term && report.beat > 0;
  const Time from = own_beat && !simulation_.setup.mutation.poll_from_arrival
                        ? Time(std::chrono::microseconds(report.beat))
                        : simulation_.agenda.Now();
  reporter_ = key;
  Feed(Reported{report});
  parked_[key] = Parked{report.sequence, report.echo, from + PollPeriod(), std::move(answer)};
  AnswerWhatChanged();
  Arm();
}

void Server::Close(const NodeKey& key, std::uint64_t sequence) {
  const auto found = parked_.find(key);
  if (found != parked_.end()) {
    if (found->second.sequence != sequence && !simulation_.setup.mutation.believe_old_reports) {
      return;  // Overtaken.
    }
    sequence = found->second.sequence;
    parked_.erase(found);
  }
  Feed(CallEnded{key.node, key.incarnation, sequence, true});
  AnswerWhatChanged();
  Arm();
}

void Server::Feed(const CoordinatorEvent& event) {
  const Time now = simulation_.agenda.Now();
  simulation_.laws.OnWoken(name_, now, kServerPace);
  if (simulation_.setup.mutation.invent_promises && state_.phase == Phase::kDraining) {
    for (auto& [key, node] : state_.nodes) {
      node.report.floor = std::max(node.report.floor, state_.world->generation);
    }
    RefileAll(state_, config_);
  }
  if (simulation_.setup.mutation.judge_early && state_.phase == Phase::kDraining &&
      !state_.drain->evidence.empty()) {
    for (auto& [key, node] : state_.nodes) {
      node.report.hosting = Hosting::kNothing;
      node.report.unkillable = 0;
      node.report.floor = std::max(node.report.floor, state_.world->generation);
    }
    RefileAll(state_, config_);
  }
  if (simulation_.setup.mutation.no_forgiveness) {
    state_.stepped = now;
  }
  BreakLossRules(now);
  const Phase before = state_.phase;
  const std::uint64_t worlds = state_.worlds_formed;
  if (simulation_.setup.mutation.no_recovery_lease && before == Phase::kRecovering) {
    state_.since = Time{};
  }
  simulation_.laws.BeforeStep(state_);
  const auto [notices, persist] = Step(state_, config_, event, now);
  simulation_.laws.AfterStep(state_, config_, std::holds_alternative<Tick>(event), now);
  CheckRecovered(before);
  if (state_.worlds_formed > worlds) {
    CheckClaim(now);
  }
  if (simulation_.setup.mutation.charge_recovered && before == Phase::kRecovering && state_.drain) {
    state_.drain->membership = false;
  }
  if (before != Phase::kDraining && state_.phase == Phase::kDraining && state_.drain->hang &&
      !simulation_.MayHang(state_.world->id)) {
    simulation_.laws.OnFalseHang();
  }
  simulation_.transcript.Mark(now, event.index() + 16 * static_cast<std::uint64_t>(state_.phase));
  for (const Notice& notice : notices) {
    simulation_.transcript.Tell(now, name_, notice.text);
  }
  if (persist) {
    Keep(*persist);
  }
}

void Server::BreakLossRules(Time now) {
  const Mutation& mutation = simulation_.setup.mutation;
  if (!mutation.no_successor_grace && !mutation.no_several_at_once && !mutation.no_fence_wait) {
    return;
  }
  if (mutation.no_fence_wait && state_.world) {
    for (Member& member : state_.world->members) {
      member.fence.reset();
    }
  }
  for (auto& [key, node] : state_.nodes) {
    if (mutation.no_successor_grace && !node.lost && !node.acknowledged &&
        HasSuccessor(state_, key)) {
      node.unconnected = Time{};
    }
    if (mutation.no_several_at_once && !node.lost && node.cancelled && node.lease_decides) {
      node.expires = now;
    }
  }
  RefileAll(state_, config_);
}

// ---- The journal ----
void Server::Keep(const Persist& persist) {
  writing_.push_back(persist);
  simulation_.agenda.After(simulation_.random.Between(Duration{0}, simulation_.setup.slow_disk),
                           [this, life = life_, persist] { OnKept(life, persist); });
  if (simulation_.setup.mutation.tell_before_keeping) {
    Feed(Persisted{persist.number});
  }
}

void Server::OnKept(std::uint64_t life, const Persist& persist) {
  if (life != life_) {
    return;
  }
  while (!writing_.empty() && writing_.front().number <= persist.number) {
    disk_ = std::move(writing_.front().record);
    writing_.pop_front();
  }
  simulation_.laws.OnKept(*disk_);
  const auto heard = [this, number = persist.number] {
    Feed(Persisted{number});
    AnswerWhatChanged();
    Arm();
  };
  if (paused_) {
    inbox_.push_back(heard);
  } else {
    heard();
  }
}

void Server::Crash() {
  if (!up_) {
    return;
  }
  simulation_.transcript.Tell(simulation_.agenda.Now(), name_, "(is killed)");
  up_ = paused_ = false;
  ++life_;
  ++timer_;
  inbox_.clear();
  parked_.clear();
  arrivals_.clear();
  worlds_ += state_.worlds_formed;
  state_.worlds_formed = 0;
  while (!writing_.empty() && simulation_.random.Chance(0.5)) {  // Some of it has reached the disk.
    disk_ = std::move(writing_.front().record);
    simulation_.laws.OnKept(*disk_);
    writing_.pop_front();
  }
  writing_.clear();
  if (!config_.journal) {
    simulation_.laws.OnHistoryLost();
  }
  for (const auto& machine : simulation_.machines) {
    machine->ServerGone(*this);
  }
}

void Server::Start() {
  if (up_) {
    return;
  }
  up_ = true;
  ++life_;
  const Time now = simulation_.agenda.Now();
  config_.seed = simulation_.random.Next();
  if (simulation_.setup.clock_jumps && !config_.journal) {
    config_.term = {simulation_.random.Between(1, highest_term_.value + 1)};
  } else {
    config_.term = highest_term_ = highest_term_.Next();
  }
  const RunId run_id = state_.run_id;
  state_ = disk_ ? Restore(*disk_, now) : CoordinatorState{};
  state_.run_id = run_id;
  simulation_.transcript.Tell(now, name_, disk_ ? "(starts with its journal)" : "(starts)");
  simulation_.laws.OnServerStart(now);
  answered_edition_ = state_.edition;
  Arm();
}

void Server::LoseJournal() {
  if (!config_.journal || up_) {
    return;
  }
  simulation_.transcript.Tell(simulation_.agenda.Now(), name_, "(its journal is lost)");
  disk_.reset();
  simulation_.laws.OnHistoryLost();
}

// Nobody who works and can be heard starts over because of a new server. Only in calm weather:
// else a report may take longer than a lease.
void Server::CheckRecovered(Phase before) const {
  if (before != Phase::kRecovering || state_.phase != Phase::kDraining ||
      IsPlanned(state_.drain->cause) || state_.drain->hang ||
      !simulation_.laws.losses_forbidden()) {
    return;
  }
  const bool healthy = std::all_of(
      state_.world->members.begin(), state_.world->members.end(), [&](const Member& member) {
        return std::any_of(
            simulation_.machines.begin(), simulation_.machines.end(), [&](const auto& machine) {
              return machine->node() == member.key.node && machine->Works(state_.world->id);
            });
      });
  if (healthy) {
    simulation_.laws.Break("a new server stops generation " +
                           std::to_string(state_.world->generation.value) +
                           ", which works on every node");
  }
}

void Server::AnswerWhatChanged() {
  const Time now = simulation_.agenda.Now();
  bool again = true;
  while (again) {  // The end of a call is news too.
    again = false;
    for (auto it = parked_.begin(); it != parked_.end(); ++it) {
      const NodeKey key = it->first;
      Directive directive = DirectiveFor(state_, config_, key.node, key.incarnation, now);
      const bool changed = !it->second.echo || !SameDirective(directive, *it->second.echo);
      if (!changed && now < it->second.answer_by) {
        continue;
      }
      if (changed && key != reporter_ && state_.edition == answered_edition_) {
        simulation_.laws.Break("what " + key.node + " is told changed, but not the edition");
      }
      const bool receipt = it->second.echo && std::holds_alternative<Finish>(*it->second.echo);
      if (changed && !receipt && simulation_.transcript.words()) {
        simulation_.transcript.Tell(now, name_, "tells " + key.node + " to " + Describe(directive));
      }
      if (!receipt) {
        simulation_.laws.OnDirective(key.node, directive);
      }
      const Parked parked = std::move(it->second);
      parked_.erase(it);
      parked.answer(SyncReply{
          std::move(directive),
          std::chrono::duration_cast<std::chrono::microseconds>(now.time_since_epoch()).count(),
          LeaseOf(state_, config_), PollPeriod(), config_.term});
      Feed(CallEnded{key.node, key.incarnation, parked.sequence, false});
      again = true;
      break;
    }
  }
  answered_edition_ = state_.edition;
}

void Server::Arm() {
  std::optional<Time> wake = NextWake(state_, config_);
  for (const auto& [key, parked] : parked_) {
    wake = wake ? std::min(*wake, parked.answer_by) : parked.answer_by;
  }
  const std::uint64_t token = ++timer_;
  if (wake) {
    simulation_.agenda.At(*wake, [this, token] { OnTimer(token); });
  }
}

void Server::OnTimer(std::uint64_t token) {
  if (token != timer_ || paused_) {
    return;
  }
  Feed(Tick{});
  AnswerWhatChanged();
  Arm();
}

void Server::Pause() {
  if (!up_) {
    return;
  }
  paused_ = true;
  simulation_.transcript.Tell(simulation_.agenda.Now(), name_, "(stands still)");
}

void Server::Resume() {
  if (!paused_) {
    return;
  }
  paused_ = false;
  simulation_.transcript.Tell(simulation_.agenda.Now(), name_, "(goes on)");
  if (simulation_.random.Chance(0.5)) {
    OnTimer(++timer_);  // The timer may be found before what has arrived, or after it.
  }
  while (!inbox_.empty()) {
    const std::function<void()> next = std::move(inbox_.front());
    inbox_.pop_front();
    next();
  }
  OnTimer(++timer_);
}

Duration Server::PollPeriod() const {
  return LeaseOf(state_, config_) / 3;
}

}  // namespace ddprun::sim
