#include "tests/sim/server.h"

#include <algorithm>
#include <utility>

#include "rendezvous/core/failover/serving.h"
#include "rendezvous/core/recovery.h"
#include "tests/sim/claims.h"
#include "tests/sim/machine.h"
#include "tests/sim/simulation.h"
#include "tests/support/describe_directive.h"

namespace ddprun::sim {
namespace {

constexpr std::uint64_t kServerPace = 4'000;  // Wake-ups per simulated second.

}  // namespace

// The product's, with a look at each step and at each call.
class Server::Driver final : public CoordinatorDriver {
 public:
  Driver(Server& server, const CoordinatorConfig& config)
      : CoordinatorDriver(server.machine_.loop(), config), server_(server) {}
  // Its posted tasks may still come.
  ~Driver() override {
    server_.laws_.BreakIf(server_.machine_.up(), server_.name_,
                          " is gone while its process continues");
    if (server_.driver_ == this) {
      server_.SteppedDown();
    }
  }

  void OnReport(NodeReport report, std::shared_ptr<PendingSync> call) override;
  void OnCancel(const CallName& name) override {
    server_.closing_ = Asked{{name.node, name.incarnation}, name.sequence, {}};
    CoordinatorDriver::OnCancel(name);
    server_.closing_.reset();
  }

 private:
  CoordinatorEffects TakeStep(CoordinatorState& state, const CoordinatorEvent& event,
                              Time now) override {
    server_.BeforeStep(state, event, now);
    CoordinatorEffects effects = CoordinatorDriver::TakeStep(state, event, now);
    server_.AfterStep(state, event, effects, now);
    return effects;
  }

  Server& server_;
};

// Any call that the driver holds.
class Server::Call final : public PendingSync {
 public:
  Call(Server& server, const NodeReport& report, std::shared_ptr<PendingSync> call)
      : server_(server), number_(++server.last_call_), call_(std::move(call)) {
    server_.calls_[number_] = {{report.node, report.incarnation}, report.sequence, report.echo};
  }
  ~Call() override {
    if (call_) {
      Refuse({ErrorKind::kUnavailable, "superseded"});
    }
  }

  void Answer(const SyncReply& reply) override {
    server_.OnAnswer(server_.calls_.at(number_), reply.directive);
    server_.calls_.erase(number_);
    std::exchange(call_, nullptr)->Answer(reply);
  }
  // Its client may have given it up.
  void Refuse(const Error& error) override {
    const bool given_up = server_.IsClosing(server_.calls_.at(number_));
    server_.calls_.erase(number_);
    if (const auto call = std::exchange(call_, nullptr); !given_up) {
      call->Refuse(error);
    }
  }

 private:
  Server& server_;
  const std::uint64_t number_;
  std::shared_ptr<PendingSync> call_;
};

// From another machine. Nothing comes back from a process that was killed.
class Server::FarCall final : public PendingSync {
 public:
  FarCall(Server& server, Server::Answer answer)
      : server_(server), life_(server.life_), answer_(std::move(answer)) {}

  void Answer(const SyncReply& reply) override { End(reply); }
  void Refuse(const Error& /*error*/) override { End(std::nullopt); }

 private:
  void End(const std::optional<SyncReply>& reply) {
    if (life_ == server_.life_) {
      answer_(reply);
    }
  }

  Server& server_;
  const std::uint64_t life_;
  const Server::Answer answer_;
};

void Server::Driver::OnReport(NodeReport report, std::shared_ptr<PendingSync> call) {
  server_.NoteForgotten(report);
  auto counted = std::make_shared<Call>(server_, report, std::move(call));
  CoordinatorDriver::OnReport(std::move(report), std::move(counted));
  server_.highest_term_ = std::max(server_.highest_term_, config().term);
}

// Its state directory. A write takes the time that was set for the loop's disk.
class Server::Disk final : public Claims {
 public:
  Result<std::optional<Claim>> Newest() override { return newest; }
  Result<Claim> Make(const Claim& claim) override {
    newest = claim;
    return claim;
  }
  Result<bool> Move(const Claim& claim) override {
    newest = claim;
    return false;
  }
  Result<void> Announce(const Endpoint& /*endpoint*/, const std::string& /*token*/) override {
    return {};
  }
  std::string Where() const override { return "the state directory"; }

  std::optional<Claim> newest;
};

Server::Server(Simulation& simulation, Machine& machine)
    : simulation_(simulation),
      laws_(simulation.laws),
      machine_(machine),
      name_(simulation.setup.standing ? "server" : "server" + std::to_string(machine.index())) {
  config_.term = highest_term_ = {7};
  config_.stop_grace = StopGraceOf(simulation.setup);
  config_.start_timeout = 5s;
  config_.base_lease = simulation.setup.base_lease;
  config_.long_lease = simulation.setup.long_lease;
  config_.lease_per_node = simulation.setup.lease_per_node;
  config_.run_bytes = simulation.setup.run_bytes.value_or(config_.run_bytes);
  if (simulation.setup.state_dir) {
    disk_ = std::make_shared<Disk>();
  }
}

// Parked calls are not answered.
Server::~Server() {
  ++life_;
  claim_.reset();
  own_.reset();
}

std::uint32_t Server::host() const {
  return machine_.index();
}

// ---- Its process ----
void Server::Stand() {
  const bool jumps = simulation_.setup.clock_jumps && !disk_;
  highest_term_ = jumps ? highest_term_ : highest_term_.Next();
  const Term clock =
      jumps ? Term{simulation_.random.Between(1, highest_term_.value + 1)} : highest_term_;
  CoordinatorConfig term_config = NewTermConfig(clock);
  const TakeClaim take = disk_ ? *SoleClaim::Next(*disk_) : TakeClaim{};
  term_config.term = NewClaim(take, term_config.term, {}).term;
  own_ = BeginTerm(term_config, take.takes_over);
  if (disk_) {
    Tell(take.takes_over ? "(has an earlier server's claim)" : "(has an empty state directory)");
    claim_ = std::make_unique<SoleClaim>(machine_.loop(), disk_, *own_);
    (void)claim_->Take(take, {});
  }
  NoteClaim(take);
  Listen(own_->Handlers());
}

void Server::LoseState() {
  if (disk_ && !up()) {
    Tell("(its state directory is lost)");
    disk_->newest.reset();
    laws_.history_lost = true;
    laws_.outcomes_last = false;
  }
}

std::unique_ptr<CoordinatorDriver> Server::BeginTerm(const CoordinatorConfig& term_config,
                                                     bool takes_over) {
  laws_.OnServerStart(machine_.loop().Now());
  auto driver = std::make_unique<Driver>(*this, term_config);
  driver_ = driver.get();
  knew_run_ = false;
  takes_over_ = takes_over;
  began_ = machine_.loop().Now();
  return driver;
}

void Server::Vanish() {
  if (up() && !disk_) {
    laws_.history_lost = true;
    if (simulation_.setup.standing) {
      laws_.outcomes_last = false;
    }
  }
  StopListening();
  if (up()) {
    SteppedDown();
  }
  claim_.reset();
  own_.reset();
}

void Server::StopListening() {
  if (!listens()) {
    return;
  }
  for (const auto& machine : simulation_.machines) {
    machine->ServerGone(*this);
  }
  ++life_;
  handlers_.reset();
}

bool Server::MayBeLookedFor() const {
  return takes_over_ &&
         machine_.loop().Now() < began_ + std::max(config_.base_lease, config_.long_lease);
}

// ---- What arrives ----
// Messages sent while the server was down were tried anew.
void Server::Arrive(std::uint64_t life, std::function<void()> what,
                    const std::function<void()>& refused) {
  if (!listens() || (life != life_ && life % 2 == 1)) {
    refused();
    return;
  }
  machine_.loop().Arrive([this, what = std::move(what)] {
    if (listens()) {
      what();
    }
  });
}

void Server::OnCall(const NodeReport& report, std::uint64_t life, Answer answer) {
  Arrive(
      life,
      [this, report, answer] { handlers_->sync(report, std::make_shared<FarCall>(*this, answer)); },
      [answer] { answer(std::nullopt); });
}

void Server::OnClosed(const NodeKey& key, std::uint64_t sequence, std::uint64_t life) {
  const CallName name{"run", key.node, key.incarnation, sequence};
  Arrive(
      life, [this, name] { handlers_->cancel(name); }, [] {});
}

// ---- What must be true around each step of the core, and after each iteration of the loop ----
void Server::BeforeStep(const CoordinatorState& state, const CoordinatorEvent& event, Time now) {
  laws_.OnWoken(name_, now, kServerPace);
  laws_.BreakIf(std::holds_alternative<Tick>(event) && machine_.loop().timers_come_first(), name_,
                " judges by the time before what has arrived");
  phase_before_ = state.phase;
  worlds_before_ = state.worlds_formed;
  nodes_before_.clear();
  if (simulation_.transcript.words()) {
    for (const auto& [key, node] : state.nodes) {
      nodes_before_.push_back(key);
    }
  }
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
  for (const NodeKey& key : nodes_before_) {
    if (!state.nodes.contains(key)) {
      Tell("forgets this membership of node " + key.node);
    }
  }
  if (!IsOver(state)) {
    over_since_.reset();
  } else if (!over_since_) {
    over_since_ = now;
  }
}

void Server::CheckHang(const World& world) {
  const Job& job = simulation_.job(world.id);
  if (job.workload) {
    const std::string wrong = job.workload->Found(simulation_.Now());
    laws_.BreakIf(!wrong.empty(), wrong);
  } else if (!job.MayHang()) {
    laws_.OnFalseHang();
  }
}

// No node runs again whose run has ended, nor a world that has ended well everywhere.
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
  if (std::holds_alternative<Finish>(directive)) {
    laws_.OnOutcomeAnswered(asked.key);
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

// No node that works and can be heard starts over because of a new server. Only in calm weather:
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

// A server whose claim has not moved for a lease may be on the losing side of a split, about to
// step down. Where claims are read as they are, who forms a world also has the newest.
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
