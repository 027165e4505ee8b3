#include "tests/sim/laws.h"

#include <algorithm>
#include <utility>

#include "rendezvous/core/testing/invariants.h"
#include "rendezvous/messages/describe.h"

namespace ddprun::sim {
namespace {

constexpr std::uint64_t kMostLosses = 300;  // No plan has that many faults.

}  // namespace

void Laws::AfterStep(const CoordinatorState& state, const CoordinatorConfig& config, bool ticked,
                     Time now) {
  for (const auto& [key, node] : state.nodes) {
    if (node.lost && state.world) {
      lost_in_.emplace(key, state.world->id);
    }
    if (!node.lost || !ever_lost_.insert(key).second || node.acknowledged) {
      continue;
    }
    BreakIf(++lost > kMostLosses, "node ", key.node, " is taken for lost again and again");
    BreakIf(losses_forbidden && !exited_.contains(key.node), "node ", key.node,
            " was taken for lost although nothing was wrong with it");
  }
  if (const auto broken = BrokenInvariant(state, config, now)) {
    Break(*broken);
  }
  NoteRecovered(state, server_started_ + LeaseOfRecovery(state, config), now);
  const bool formed = state.world && state.phase == Phase::kRunning &&
                      state.world->term == config.term && state.worlds_formed > 0;
  if (formed && splits_) {
    CheckName(state.world->term, state.world->generation, state.world->id);
  }
  if (formed) {
    formed_.insert(state.world->id);
  }
  if (formed && (!world_before_ || world_before_->id != state.world->id)) {
    if (world_before_) {
      BreakIf(state.world->generation <= world_before_->generation, "generation ",
              state.world->generation, " follows ", world_before_->generation);
    }
    CheckOneWorld(state, config, now);
  }
  CheckOutcome(state);
  CheckBudget(state, now);
  CheckWindow(state, config, now);
  CheckGrowth(state);
  const auto wake = NextWake(state, config);
  BreakIf(wake && ticked && *wake <= now, "the coordinator wants to be woken in the past");
}

// A node that a new server has not heard within its lease is as lost as if it had been declared so.
// A world that continues under a new server has lost no node, whatever the old one thought.
void Laws::NoteRecovered(const CoordinatorState& state, Time lease_over, Time now) {
  const bool left = phase_before_ == Phase::kRecovering && state.phase != Phase::kRecovering;
  if (left && state.recovery.newest && now >= lease_over) {
    for (const auto& [host, live] : live_) {
      const WorldId id = live.placement.world_id;
      if (id == state.recovery.newest->world_id && !state.nodes.contains(live.key)) {
        lost_in_.emplace(live.key, id);
      }
    }
  }
  const bool adopted = state.world && state.worlds_formed == 0 &&
                       (left || !world_before_ || world_before_->id != state.world->id);
  if (!adopted) {
    return;
  }
  for (const Member& member : state.world->members) {
    if (member.lost) {
      lost_in_.emplace(member.key, state.world->id);
    } else if (state.phase == Phase::kRunning || (state.drain && state.drain->hang)) {
      lost_in_.erase({member.key, state.world->id});
    }
  }
}

// A new world was formed: a node that still runs another one must be lost, or one that this server
// has not heard for as long as a lost one, or run a world that it has not formed.
void Laws::CheckOneWorld(const CoordinatorState& state, const CoordinatorConfig& config, Time now) {
  for (const auto& [host, live] : live_) {
    const WorldId id = live.placement.world_id;
    if (splits_) {
      // Regardless of the servers' views of each other: a node that is cut off has killed its
      // workers by now. Only a server that begins another run, after one that has ended or is
      // forgotten everywhere, knows of no reason to wait for worlds before its own: a node that
      // still runs one gets the directive to stop.
      const bool known =
          !run_forgotten || state.recovery.entered || (world_before_ && world_before_->id == id);
      BreakIf(id != state.world->id && state.spec->fence_after > 0ms && known && !deluded_ &&
                  !live.outlives_kill && !ever_paused_.contains(host),
              "generation ", state.world->generation, " was formed while ", host,
              ", which --fence-after stops in time, still runs generation ",
              live.placement.generation);
      continue;
    }
    const bool last = world_before_ && world_before_->id == id;
    const bool unheard = !state.nodes.contains(live.key) &&
                         (!last || now >= server_started_ + LeaseOfRecovery(state, config));
    const bool fenced = ever_lost_.contains(live.key) || lost_in_.contains({live.key, id}) ||
                        unheard || (!last && !formed_.contains(id));
    // A node that is cut off for as long as --fence-after kills its workers, lost or not.
    const bool kills_itself = last && state.spec->fence_after > 0ms && !live.outlives_kill &&
                              !ever_paused_.contains(host);
    BreakIf(id != state.world->id && (!fenced || kills_itself), "generation ",
            state.world->generation, " was formed while ", host, " still runs generation ",
            live.placement.generation,
            kills_itself ? ", whose workers --fence-after kills before that"
                         : ", which was not lost in the server's list of nodes after any step");
  }
}

// Every failure has a reason, and a planned stop is no incident.
void Laws::CheckOutcome(const CoordinatorState& state) {
  BreakIf(phase_before_ != Phase::kFailed && state.phase == Phase::kFailed &&
              (state.outcome->text.empty() || state.outcome->exit_code == 0),
          "the run failed for no reason");
  const bool failed =
      state.phase == Phase::kFailed && state.drain && state.drain->cause != StopCause::kOperator;
  BreakIf(phase_before_ == Phase::kDraining && planned_before_ &&
              (failed || state.budget.used > restarts_before_),
          "a planned stop used a restart");
}

void Laws::CheckBudget(const CoordinatorState& state, Time now) {
  BreakIf(phase_before_ == Phase::kGathering && state.phase == Phase::kRunning &&
              next_start_before_ && now < *next_start_before_,
          "a world was formed during the pause after failures without progress");
  const bool charged = state.budget.used != restarts_before_;
  const bool spent = state.phase == Phase::kFailed && phase_before_ != Phase::kFailed &&
                     state.outcome->text.find("restarts are") != std::string::npos;
  const bool recovers = phase_before_ == Phase::kRecovering || state.phase == Phase::kRecovering;
  if (!world_before_ || recovers || splits_ || (!charged && !spent)) {
    return;
  }
  BreakIf(state.budget.used > restarts_before_ + 1, "one incident used two restarts");
  for (const Member& member : world_before_->members) {
    BreakIf(lost_in_.contains({member.key, world_before_->id}), "the loss of ", member.key.node,
            " in generation ", world_before_->generation,
            " used a restart, as if a worker had failed");
  }
}

// Counted here once more: never more incidents paid for within any window than the budget has.
void Laws::CheckWindow(const CoordinatorState& state, const CoordinatorConfig& config, Time now) {
  const bool recovers = phase_before_ == Phase::kRecovering || state.phase == Phase::kRecovering;
  if (charged_by_ != config.term || recovers) {
    charges_.clear();
    charged_by_ = config.term;
    return;
  }
  if (!state.spec || state.spec->restart_window == 0ms) {
    return;
  }
  if (state.budget.used > restarts_before_ && phase_before_ == Phase::kDraining) {
    charges_.push_back(now);
  }
  std::erase_if(charges_, [&](Time when) { return now - when >= state.spec->restart_window; });
  BreakIf(charges_.size() > state.spec->max_restarts,
          "more incidents were paid for within the restart window than the budget has");
}

// A world stops for arrivals only where it may grow, has room, and a welcome node is there.
void Laws::CheckGrowth(const CoordinatorState& state) {
  if (phase_before_ != Phase::kRunning || state.phase != Phase::kDraining ||
      state.drain->cause != StopCause::kScaleUp) {
    return;
  }
  const World& world = *state.world;
  BreakIf(!state.spec->scale_up || world.members.size() >= state.spec->max_nodes ||
              world.roll.unfinished.size() < world.members.size() || state.index.outsiders == 0,
          "generation ", world.generation, " was stopped for arrivals for nothing");
}

void Laws::OnDirective(const CoordinatorState& state, const NodeKey& key,
                       const Directive& directive) {
  const NodeId& node = key.node;
  if (const auto* const finish = std::get_if<Finish>(&directive);
      finish != nullptr && state.outcome) {
    const auto found = state.nodes.find(key);
    const Member* const member = FindMember(state, key);
    BreakIf(found != state.nodes.end() && !found->second.lost && member != nullptr &&
                !member->lost && found->second.report.hosting != Hosting::kNothing,
            node, " is told how the run ended while it runs workers of its last world");
    if (!history_lost && told_ && !SameDirective(*told_, *state.outcome)) {
      Break("the run ended with '", told_->text, "', and then with '", state.outcome->text, "'");
    }
    told_ = state.outcome;
  }
  const Wait* const wait = std::get_if<Wait>(&directive);
  if (wait == nullptr) {
    return;
  }
  const WaitReason& reason = wait->reason;
  const bool names_somebody = reason.what == WaitFor::kDrain || reason.what == WaitFor::kPeers
                                  ? !reason.missing.empty()
                                  : reason.want > 0;
  const bool short_of = reason.what != WaitFor::kNodes || reason.have < reason.need;
  if (!names_somebody || !short_of) {
    Break(node, " waits without a reason: ", Describe(reason));
  }
}

void Laws::OnTold(const CoordinatorState& state, const std::string& host,
                  const LiveWorkers& spawned) {
  const Placement& placement = spawned.placement;
  const bool current = state.world && state.world->id == placement.world_id;
  // A dead server's directive may be heard until a new server is; a node that acts on it is late.
  const bool heard = state.nodes.contains(spawned.key);
  if (!heard) {
    lost_in_.emplace(spawned.key, placement.world_id);
  }
  BreakIf(!current && heard && !ever_lost_.contains(spawned.key), host, " starts generation ",
          placement.generation, ", which is not the current one");
}

void Laws::OnSpawn(const std::string& host, const LiveWorkers& spawned) {
  const Placement& placement = spawned.placement;
  if (const auto found = live_.find(host); found != live_.end()) {
    Break(host, " starts generation ", placement.generation, " while it still runs ",
          found->second.placement.generation);
  }
  if (splits_) {
    CheckName(placement.term, placement.generation, placement.world_id);
  }
  const auto [entry, fresh] = worlds_.try_emplace(placement.world_id, WorldFacts{placement, {}});
  WorldFacts& facts = entry->second;
  const Placement& shared = facts.shared;
  BreakIf(placement.generation != shared.generation || placement.world_size != shared.world_size ||
              placement.group_size != shared.group_size || placement.store != shared.store ||
              placement.restarts_used != shared.restarts_used,
          "the workers of generation ", placement.generation, " disagree about it");
  for (std::uint32_t i = 0; i < spawned.workers; ++i) {
    const std::uint32_t rank = placement.first_rank + i;
    const bool first = facts.rank_owner.emplace(rank, host).second;
    BreakIf(!first || rank >= placement.world_size, "rank ", rank, " of generation ",
            placement.generation, " was given twice or is too large");
  }
  live_[host] = spawned;
}

void Laws::OnExit(const std::string& host, const NodeId& node,
                  const std::optional<Finish>& finish) {
  BreakIf(live_.contains(host), "the agent of ", host, " ended before its workers");
  exited_.insert(node);
  const bool of_run =
      finish && (finish->ending == Ending::kSucceeded || finish->ending == Ending::kFailed);
  if (!of_run) {
    return;
  }
  const bool same =
      !outcome_ || (SameDirective(*outcome_, *finish) && outcome_->text == finish->text);
  if (!same && !history_lost) {
    Break(host, " tells '", finish->text, "', another node told '", outcome_->text, "'");
  }
  outcome_ = finish;
}

}  // namespace ddprun::sim
