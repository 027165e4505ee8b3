// Server: what must be true around each step of the core and after each turn of the loop.
#include <algorithm>

#include "rendezvous/core/recovery.h"
#include "rendezvous/messages/describe.h"
#include "tests/sim/claims.h"
#include "tests/sim/machine.h"
#include "tests/sim/simulation.h"

namespace ddprun::sim {
namespace {

constexpr std::uint64_t kServerPace = 4'000;  // Wake-ups per simulated second.

}  // namespace

void Server::BeforeStep(const CoordinatorState& state, const CoordinatorEvent& event, Time now) {
  laws_.OnWoken(name_, now, kServerPace);
  laws_.BreakIf(std::holds_alternative<Tick>(event) && machine_.loop().timers_come_first(), name_,
                " judges by the time before what has arrived");
  phase_before_ = state.phase;
  worlds_before_ = state.worlds_formed;
  laws_.BeforeStep(state, machine_.deluded());
}

void Server::AfterStep(const CoordinatorState& state, const CoordinatorEvent& event,
                       const CoordinatorEffects& effects, Time now) {
  laws_.AfterStep(state, config(), std::holds_alternative<Tick>(event), now);
  CheckRecovered(state);
  if (state.worlds_formed > worlds_before_) {
    CheckClaim();
    CheckMembers(*state.world, laws_.world_before());
    for (const Member& member : state.world->members) {
      laws_.BreakIf(IsUnfit(state.nodes.at(member.key).report), name_, " forms a world with ",
                    member.key.node, ", which its check refuses");
    }
    laws_.BreakIf(MayBeLookedFor() && !state.recovery.entered, name_,
                  " forms a world before it knows what its predecessor left");
  }
  const bool stops = phase_before_ == Phase::kRunning && state.phase == Phase::kDraining;
  if (stops && state.drain->cause == StopCause::kScaleUp) {
    CheckClaim();
  }
  if (phase_before_ != Phase::kDraining && state.phase == Phase::kDraining && state.drain->hang) {
    CheckHang(*state.world);
  }
  simulation_.transcript.Mark(now, event.index() + 16 * static_cast<std::uint64_t>(state.phase));
  if (effects.ended && disk_) {
    machine_.loop().DiskTakes(simulation_.random.Between(0ms, simulation_.setup.slow_disk));
  }
  for (const RunEvent& said : effects.events) {
    Tell(said.text);
  }
  worlds_ += state.worlds_formed - worlds_before_;
  restarts_ = state.budget.used;
  if (!IsOver(state)) {
    over_since_.reset();
  } else if (!over_since_) {
    over_since_ = now;
  }
}

void Server::CheckHang(const World& world) {
  const Job& job = simulation_.job(world.id);
  if (job.labour) {
    const std::string wrong = job.labour->Found(simulation_.Now());
    laws_.BreakIf(!wrong.empty(), wrong);
  } else if (!job.MayHang()) {
    laws_.OnFalseHang();
  }
}

// Nobody runs again whose run has ended, nor a world that has ended well everywhere.
void Server::CheckMembers(const World& world, const std::optional<World>& before) const {
  std::size_t ended_well = 0;
  for (const auto& machine : simulation_.machines) {
    if (!machine->alive()) {
      continue;
    }
    const AgentState& agent = machine->agent();
    const NodeKey key{machine->node(), agent.incarnation};
    if (world.places.contains(key) && !machine_.deluded()) {
      laws_.CheckRunsAgain(machine->host(), machine->life());
    }
    const auto node = state().nodes.find(key);
    const bool was_there = before && RankOf(*before, key) && node != state().nodes.end() &&
                           !node->second.lost && agent.placement &&
                           agent.placement->world_id == before->id;
    ended_well += was_there && agent.outcome == Outcome::kSucceeded ? 1 : 0;
  }
  if (before) {
    laws_.BreakIf(ended_well == before->members.size(), "generation ", before->generation,
                  " has ended well on every node, and another one is formed");
  }
}

void Server::OnAnswer(const Asked& asked, const Directive& directive) {
  if (asked.echo && std::holds_alternative<Finish>(*asked.echo)) {
    return;  // The receipt of an acknowledgement.
  }
  if (simulation_.transcript.words() && asked.IsOther(directive)) {
    Tell("tells ", asked.key.node, " to ", Describe(directive));
  }
  laws_.OnDirective(state(), asked.key, directive);
}

// That call alone, of those of its membership.
bool Server::IsClosing(const Asked& asked) {
  if (!closing_ || closing_->key != asked.key) {
    return false;
  }
  laws_.BreakIf(closing_->sequence != asked.sequence, "the end of an older call of ",
                asked.key.node, " ended its newest");
  return true;
}

void Server::CheckOpenCalls() {
  if (!up() || laws_.broken()) {
    return;
  }
  const CoordinatorState& run = state();
  const Time now = machine_.loop().Now();
  for (const auto& [number, asked] : calls_) {
    const NodeKey& key = asked.key;
    laws_.BreakIf(asked.IsOther(DirectiveFor(run, config(), key.node, key.incarnation, now)),
                  "what ", key.node, " is told has changed, but its call stays open");
  }
  const auto counted =
      std::ranges::count_if(run.nodes, [](const auto& node) { return node.second.call_open; });
  const auto open = std::ranges::count_if(calls_, [&](const auto& call) {
    return run.nodes.contains(call.second.key);  // Else it has no room for the node.
  });
  laws_.BreakIf(counted != open, "the coordinator counts ", counted, " open calls of ", open);
}

// Nobody who works and can be heard starts over because of a new server. Only in calm weather:
// else a report may take longer than a lease.
void Server::CheckRecovered(const CoordinatorState& state) const {
  if (phase_before_ != Phase::kRecovering || state.phase != Phase::kDraining ||
      IsPlanned(state.drain->cause) || state.drain->hang || !laws_.losses_forbidden) {
    return;
  }
  const bool healthy = std::ranges::all_of(state.world->members, [&](const Member& member) {
    return std::ranges::any_of(simulation_.machines, [&](const auto& machine) {
      return machine->node() == member.key.node && machine->Works(state.world->id);
    });
  });
  laws_.BreakIf(healthy, "a new server stops generation ", state.world->generation,
                ", which works on every node");
}

// Whose claim has not moved for a lease may be on the losing side of a split, about to step down.
// Where claims are read as they are, who forms a world also has the newest.
void Server::CheckClaim() const {
  const Time now = simulation_.Now();
  const Setup& setup = simulation_.setup;
  if (setup.standing || machine_.deluded()) {
    return;
  }
  const RunDirectory& directory = *simulation_.run_directory;
  laws_.BreakIf(
      setup.stale_claims == 0 && directory.NewestAt(now)->term != config().term, name_,
      " forms a world, or stops one for newcomers, although another server has followed it");
  // As others know it; a world that has gone had a longer one.
  Duration lease = config().base_lease;
  for (const auto& [number, claim] : directory.claims()) {
    lease = std::max(lease, claim.term == config().term ? claim.lease : 0ms);
  }
  laws_.BreakIf(now - directory.MovedAt(config().term) > lease, name_,
                " forms a world, or stops one for newcomers, with a claim that has not moved for a "
                "lease");
}

}  // namespace ddprun::sim
