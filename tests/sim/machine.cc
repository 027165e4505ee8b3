#include "tests/sim/machine.h"

#include <utility>

#include "common/exit_status.h"
#include "common/overload.h"
#include "tests/sim/candidate.h"
#include "tests/sim/channel.h"
#include "tests/sim/simulation.h"

namespace ddprun::sim {
namespace {

constexpr Duration kStartLasts{1'000};
constexpr Duration kReleaseLimit{2'000};
constexpr Duration kReleaseTriesAgain{20};
constexpr std::uint64_t kAgentPace = 150;  // Wake-ups per simulated second.

// "send report 3 (hosts nothing, floor 2)", "spawn generation 1 from rank 0 of 2".
std::string InWords(const AgentEffect& effect) {
  return std::visit(
      Overload{
          [](const SendReport& send) {
            const NodeReport& r = send.report;
            const char* hosting = r.hosting == Hosting::kNothing   ? "hosts nothing"
                                  : r.hosting == Hosting::kWorkers ? "hosts workers"
                                                                   : "is stopping";
            const char* fitness = !r.unfit.empty() ? ", unfit" : r.checking ? ", checking" : "";
            return Words("send report ", r.sequence, " (", hosting, ", floor ", r.floor, ", ",
                         r.failures.size(), " failures", fitness, ")");
          },
          [](const Spawn& spawn) {
            const Placement& p = spawn.placement;
            return Words("spawn generation ", p.generation, " from rank ", p.first_rank, " of ",
                         p.world_size);
          },
          [](const SignalWorkers& s) { return "signal workers: " + SignalName(s.signal); },
          [](const KillWorkers&) { return std::string("kill workers"); },
          [](const CheckNode&) { return std::string("check the node"); },
          [](const TakeStacks&) { return std::string("take the workers' stacks"); },
          [](const Exit& exit) {
            return Words("exit ", exit.code, ": ", exit.finish ? exit.finish->text : exit.text);
          },
          [](const Say& say) { return "say: " + say.text; },
      },
      effect);
}

std::string WithoutNumber(const std::string& text) {
  const std::size_t from = text.find('(');
  return from == std::string::npos ? text : text.substr(from);
}

}  // namespace

// The product's, with a look at each step.
class Machine::Driver final : public AgentDriver {
 public:
  Driver(Machine& machine, AgentParts parts)
      : AgentDriver(machine.loop_, machine.config_, std::move(parts)), machine_(machine) {}

 private:
  std::vector<AgentEffect> TakeStep(AgentState& state, const AgentEvent& event, Time now) override {
    machine_.BeforeStep(event, now);
    std::vector<AgentEffect> effects = AgentDriver::TakeStep(state, event, now);
    machine_.AfterStep(event, effects, now);
    return effects;
  }

  Machine& machine_;
};

Machine::Machine(Simulation& simulation, std::uint32_t index)
    : simulation_(simulation),
      index_(index),
      bare_(simulation.setup.bare == index),
      clock_(static_cast<std::int64_t>(simulation.random.Below(40'000)) - 20'000),
      loop_(simulation.event_queue, simulation.random),
      server_(simulation, *this),
      workers_(simulation, *this, loop_),
      checks_(simulation, index),
      stores_(simulation.laws, "n" + std::to_string(index)) {
  config_.run_id = "run";
  config_.node = "n" + std::to_string(index == simulation.setup.twin ? 0 : index);
  config_.host = bare_ && simulation.setup.standing ? "server" : "n" + std::to_string(index);
  config_.spec = simulation.setup.spec;
  config_.spec.shutdown_timeout = 4s;
  config_.workers = simulation.setup.workers.at(index);
  config_.server = "server:29400";
  config_.stop_grace = StopGraceOf(simulation.setup);
  config_.outage_limit = 90s;
  config_.hang_timeout = simulation.setup.hang_timeout;
  config_.checks_node = checks_.any();
  config_.preemptible = config_.leaves_alone = simulation.setup.evicted;
  if (!simulation.setup.drifts.empty()) {
    loop_.Drift(simulation.setup.drifts.at(index));
  }
  if (!simulation.setup.shutdown_timeouts.empty()) {
    config_.spec.shutdown_timeout = simulation.setup.shutdown_timeouts.at(index);
  }
  loop_.AfterEachIteration([this] { CheckAfterIteration(); });
}

Machine::~Machine() = default;

bool Machine::serves() const {
  return candidate_ && candidate_->serves();
}

const Server* Machine::speaks_to() const {
  return candidate_ ? candidate_->speaks_to() : nullptr;
}

// ---- Its process ----
void Machine::Start() {
  wants_start_ = !up_ && !ended_ && (workers_.left() || releasing_);
  powered_ = true;
  if (up_ || ended_ || wants_start_) {
    return;  // The slot lock is held until nothing is left.
  }
  up_ = true;
  ++life_;
  held_.reset();
  disturbed_ = simulation_.Now();
  said_.clear();
  Tell(index_ == simulation_.setup.twin ? "(starts, and says that it is n0)" : "(starts)");
  std::unique_ptr<SyncChannel> channel;
  if (!simulation_.setup.standing) {
    auto following = bare_ ? nullptr : std::make_unique<FollowingChannel>(loop_);
    candidate_ = std::make_unique<Candidate>(simulation_, *this, following.get());
    channel = std::move(following);
  } else if (bare_) {
    server_.Stand();
  } else {
    channel =
        std::make_unique<SimChannel>(simulation_, *this, simulation_.machines.back()->server());
  }
  if (bare_) {
    return;
  }
  checks_.NewProcess();
  agent_ = std::make_unique<Driver>(
      *this, AgentParts{std::move(channel), workers_, stores_,
                        [this] { return Incarnation{simulation_.random.Next()}; },
                        [this] { return config_.host; }, [this](const Exit& exit) { OnExit(exit); },
                        [this](CheckCause, auto verdict) { BeginCheck(std::move(verdict)); }});
  loop_.Arrive([this] { (void)agent_->Start(); });
}

void Machine::OnWorkersGone() {
  if (!up_ && powered_) {
    BeginRelease();
  }
  if (wants_start_ && !releasing_) {
    Start();
  }
}

// The guard's, when nothing is left: for two seconds. An operation that hangs in the directory may
// land later.
void Machine::BeginRelease() {
  if (!held_ || releasing_) {
    return;
  }
  releasing_ = true;
  const auto held = std::make_shared<HeldClaim>(*std::exchange(held_, std::nullopt));
  const std::shared_ptr<Claims> claims = Candidate::ClaimsOf(simulation_, *this);
  const std::uint64_t release = releases_.size();
  releases_.push_back(
      std::make_unique<Fiber>(simulation_.event_queue, [this, held, claims, release] {
        while (!Release(*claims, *held)) {
          Fiber::Sleep(kReleaseTriesAgain);
        }
        simulation_.event_queue.After(0ms, [this, release] { EndRelease(release); });
      }));
  simulation_.event_queue.After(kReleaseLimit, [this, release] { EndRelease(release); });
}

void Machine::EndRelease(std::uint64_t release) {
  if (releasing_ && release + 1 == releases_.size()) {
    releasing_ = false;
    if (wants_start_) {
      Start();
    }
  }
}

void Machine::EndProcess(bool noticed) {
  if (!std::exchange(up_, false)) {
    return;
  }
  ++life_;
  if (connection_ != nullptr) {
    connection_->Vanish(noticed);
  }
  server_.Vanish();
  candidate_.reset();
  agent_.reset();
  loop_.Kill();
  WakeUp();
  stores_.Die();
  workers_.OnAgentDied();
}

// The rest of the process's work is the launcher's.
void Machine::OnExit(const Exit& exit) {
  exit_ = exit;
  ended_ = true;
  simulation_.laws.OnExit(config_.host, config_.node, exit.finish);
  if (exit.finish &&
      (exit.finish->ending == Ending::kSucceeded || exit.finish->ending == Ending::kFailed)) {
    simulation_.OutcomeTold(agent_->state().term, {config_.node, agent_->state().incarnation});
  }
  simulation_.event_queue.After(0ms, InThisLife([this, code = exit.code] {
                                  if (candidate_) {
                                    candidate_->AgentEnded(code);
                                  } else {
                                    EndProcess(true);
                                  }
                                }));
}

void Machine::Crash(bool noticed) {
  if (up_) {
    Tell("(is killed)");
    EndProcess(noticed);
    const Duration sweep = simulation_.random.Between(1ms, 500ms);
    if (workers_.left()) {
      workers_.Guard(sweep);
    } else {
      BeginRelease();
    }
  }
}

void Machine::Resume() {
  frozen_ = false;
  WakeUp();
  if (loop_.paused() && !(candidate_ && candidate_->closes())) {
    Tell("(continues)");
    disturbed_ = simulation_.Now();
    loop_.Resume(/*timers_first=*/simulation_.random.Chance(0.5));
  }
}

void Machine::SetLink(bool up, bool noticed) {
  if (link_ == up) {
    return;
  }
  Tell(up ? "(network is back)" : "(network is gone)");
  if (!up && noticed && connection_ != nullptr) {
    connection_->Reset();
  }
  link_ = up;
}

void Machine::ServerGone(const Server& server) {
  if (connection_ != nullptr) {
    connection_->ServerGone(server);
  }
}

bool Machine::Works(WorldId world) const {
  if (!alive() || !workers_.Host(world)) {
    return false;
  }
  const AgentState& agent = agent_->state();
  return agent.phase == AgentPhase::kRunning && agent.leaving == Leaving::kNo &&
         agent.failures.empty();
}

// ---- Around a step of the core ----
void Machine::BeforeStep(const AgentEvent& event, Time now) {
  if (!loop_.catches_up()) {  // After a pause all that came in it is fed at once.
    simulation_.laws.OnWoken(config_.host, now, kAgentPace);
  }
  workers_.CheckHeard(event);
  if (const auto* const replied = std::get_if<Replied>(&event)) {
    stores_.Expect(replied->reply.peers);
  }
}

void Machine::AfterStep(const AgentEvent& event, const std::vector<AgentEffect>& effects,
                        Time now) {
  const AgentState& state = agent_->state();
  simulation_.transcript.Mark(
      now, event.index() + 16 * static_cast<std::uint64_t>(state.phase) + 256 * state.sequence);
  if (!simulation_.transcript.words()) {
    return;
  }
  for (const AgentEffect& effect : effects) {
    const std::string text = InWords(effect);
    const bool report = std::holds_alternative<SendReport>(effect);
    if (!report || WithoutNumber(text) != std::exchange(said_, WithoutNumber(text))) {
      Tell(text);
    }
  }
}

// After each iteration of the loop.
void Machine::CheckAfterIteration() {
  server_.CheckOpenCalls();
  if (candidate_) {
    candidate_->CheckAfterIteration();
  }
  if (!alive()) {
    return;
  }
  const AgentState& state = agent_->state();
  Laws& laws = simulation_.laws;
  laws.BreakIf(stores_.open() && !NeedsStore(state), config_.host,
               " keeps the store of a generation that is over");
  if (state.phase == AgentPhase::kRunning) {
    laws.BreakIf(state.placement->group_rank == 0 && stores_.open() != state.placement->store,
                 "nobody listens at the store of generation ", state.placement->generation);
  }
  const std::optional<Time> since = workers_.starting_since();
  const bool lasts = since && loop_.Now() > *since + kStartLasts;
  laws.BreakIf(state.phase == AgentPhase::kRunning && loop_.on_time() &&
                   (since ? lasts && !state.start_lasts : state.start_lasts),
               config_.host, " does not say whether its workers' start lasts");
}

}  // namespace ddprun::sim
