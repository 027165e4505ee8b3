#include "tests/sim/machine.h"

#include <utility>

#include "agent/core/describe.h"
#include "tests/sim/candidate.h"
#include "tests/sim/channel.h"
#include "tests/sim/server.h"
#include "tests/sim/simulation.h"

namespace ddprun::sim {
namespace {

constexpr Duration kStartLasts{1'000};
constexpr std::uint64_t kAgentPace = 400;  // Wake-ups per simulated second.

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
    machine_.BeforeStep(state, event, now);
    std::vector<AgentEffect> effects = AgentDriver::TakeStep(state, event, now);
    machine_.AfterStep(event, effects, now);
    return effects;
  }

  Machine& machine_;
};

// Of the agent alone: to the one server, or to whichever its process follows.
class Machine::Channel final : public SyncChannel {
 public:
  explicit Channel(Machine& machine) : machine_(machine) {}
  void Send(const NodeReport& report, Duration deadline, Done done) override {
    if (machine_.candidate_ == nullptr) {
      machine_.channel_->Send(report, deadline, std::move(done));
      return;
    }
    machine_.candidate_->channel().Send(
        report, deadline,
        [this, life = machine_.life_, done](std::uint64_t sequence,
                                            const Result<SyncReply>& reply) {
          if (life == machine_.life_) {
            machine_.loop_.Arrive([done, sequence, reply] { done(sequence, reply); });
          }
        });
  }
  void Cancel() override {
    if (machine_.candidate_ == nullptr) {
      machine_.channel_->Cancel();
    } else {
      machine_.candidate_->channel().Cancel();
    }
  }

 private:
  Machine& machine_;
};

Machine::Machine(Simulation& simulation, std::uint32_t index)
    : simulation_(simulation),
      index_(index),
      loop_(simulation.agenda, simulation.random),
      workers_(simulation, *this, loop_),
      stores_(simulation.laws, "n" + std::to_string(index)) {
  config_.run_id = "run";
  config_.node = "n" + std::to_string(index == simulation.setup.twin ? 0 : index);
  config_.host = "n" + std::to_string(index);
  config_.shape = simulation.setup.shape;
  config_.workers = simulation.setup.workers.at(index);
  config_.server = "server:29400";
  config_.stop_grace = Duration{2'000};
  config_.shutdown_timeout = Duration{4'000};
  config_.outage_limit = Duration{90'000};
  config_.hang_timeout = simulation.setup.hang_timeout;
  config_.preemptible = config_.leaves_alone = simulation.setup.evicted;
  loop_.AfterEachTurn([this] { CheckTurn(); });
  channel_ = std::make_unique<SimChannel>(simulation, *this, *simulation.server);
}

Machine::~Machine() = default;

void Machine::Arrive(std::function<void()> what) {
  (candidate_ == nullptr ? loop_ : candidate_->loop()).Arrive(std::move(what));
}

void Machine::Tell(const std::string& text) {
  simulation_.transcript.Tell(simulation_.agenda.Now(), config_.host, text);
}

// ---- Its process ----
void Machine::Start() {
  if (driver_ == nullptr) {
    powered_ = true;
  }
  if (bare_) {
    candidate_->Start();
    return;
  }
  wants_start_ = driver_ == nullptr && !ended_ && workers_.left();
  if (driver_ != nullptr || ended_ || wants_start_) {
    return;  // The slot lock is held until nothing is left.
  }
  said_.clear();
  if (candidate_ != nullptr) {
    candidate_->Start();
  }
  Tell("(starts)");
  driver_ = std::make_unique<Driver>(
      *this,
      AgentParts{std::make_unique<Channel>(*this), workers_, stores_,
                 [this] { return Incarnation{simulation_.random.Next()}; },
                 [this] { return config_.host; }, [this](const Exit& exit) { OnExit(exit); }});
  loop_.Arrive([this] { (void)driver_->Start(); });
}

void Machine::OnWorkersGone() {
  if (wants_start_) {
    Start();
  }
}

void Machine::EndAgent() {
  if (connection_ != nullptr) {
    connection_->Vanish();
  }
  ++life_;
  loop_.Kill();
  driver_.reset();
  stores_.Die();
  workers_.OnAgentDied();
}

// What it still has to do is the launcher's.
void Machine::OnExit(const Exit& exit) {
  exit_ = exit;
  ended_ = true;
  simulation_.laws.OnExit(config_.host, config_.node, exit.finish);
  loop_.Post([this, code = exit.code] {
    EndAgent();
    TellServerClosed();
    if (candidate_ != nullptr) {
      candidate_->AgentEnded(code);
    }
  });
}

void Machine::Crash(bool noticed) {
  if (driver_ == nullptr) {
    if (candidate_ != nullptr) {
      candidate_->Kill();
    }
    return;
  }
  Tell("(the agent crashes)");
  EndAgent();
  if (noticed) {
    TellServerClosed();
  }
  if (candidate_ != nullptr) {
    candidate_->Kill();
  }
  workers_.Guard(simulation_.random.Between(Duration{1}, Duration{500}));
}

void Machine::PowerOff(bool noticed) {
  if (driver_ == nullptr && (candidate_ == nullptr || !candidate_->up())) {
    return;
  }
  Tell("(loses power)");
  EndAgent();
  powered_ = false;
  if (noticed) {
    TellServerClosed();
  }
  if (candidate_ != nullptr) {
    candidate_->Kill();
  }
  workers_.OnPowerOff();
}

void Machine::TellServerClosed() {
  if (connection_ != nullptr) {
    connection_->TellClosed(false);
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

void Machine::SetWays(bool speaks, bool hears) {
  if (speaks != speaks_ || hears != hears_) {
    Tell(!speaks ? "(cannot speak)" : !hears ? "(hears nothing)" : "(speaks and hears again)");
  }
  speaks_ = speaks;
  hears_ = hears;
}

void Machine::Pause() {
  if (driver_ != nullptr && !loop_.paused()) {
    Tell("(the agent stands still)");
    simulation_.laws.OnPause(config_.host);
    loop_.Pause();
  }
  if (candidate_ != nullptr) {
    candidate_->Pause();
  }
}

void Machine::Freeze() {
  frozen_ = true;
  Pause();
}

void Machine::Resume() {
  frozen_ = false;
  if (candidate_ != nullptr) {
    candidate_->Resume();
  }
  if (loop_.paused()) {
    Tell("(the agent goes on)");
    loop_.Resume(/*timers_first=*/simulation_.random.Chance(0.5));
  }
}

bool Machine::Works(WorldId world) const {
  if (!alive() || !workers_.Host(world)) {
    return false;
  }
  const AgentState& agent = driver_->state();
  return agent.phase == AgentPhase::kRunning && agent.leaving == Leaving::kNo &&
         agent.failures.empty();
}

void Machine::Signal(int signal) {
  if (alive()) {
    Tell("(gets " + SignalName(signal) + ")");
    loop_.Arrive([this, signal] { driver_->OnSignal(signal); });
  }
}

// ---- Around a step of the core ----
void Machine::BeforeStep(AgentState& state, const AgentEvent& event, Time now) {
  simulation_.laws.OnWoken(config_.host, now, kAgentPace);
  workers_.CheckHeard(event);
  if (const auto* const replied = std::get_if<Replied>(&event)) {
    stores_.Expect(replied->reply.peers);
  }
  if (simulation_.setup.mutation.forget_floor && std::holds_alternative<Replied>(event)) {
    state.floor = {};
  }
  if (simulation_.setup.mutation.no_fence_kill) {
    state.answered = now;
  }
}

void Machine::AfterStep(const AgentEvent& event, const std::vector<AgentEffect>& effects,
                        Time now) {
  const AgentState& state = driver_->state();
  simulation_.transcript.Mark(
      now, event.index() + 16 * static_cast<std::uint64_t>(state.phase) + 256 * state.sequence);
  for (const AgentEffect& effect : effects) {
    if (!simulation_.transcript.words()) {
      break;
    }
    const std::string text = Describe(effect);
    const bool report = std::holds_alternative<SendReport>(effect);
    if (!report || WithoutNumber(text) != std::exchange(said_, WithoutNumber(text))) {
      Tell(text);
    }
  }
}

// After each turn of the loop.
void Machine::CheckTurn() {
  if (driver_ == nullptr) {
    return;
  }
  const AgentState& state = driver_->state();
  if (stores_.open() && !NeedsStore(state)) {
    simulation_.laws.Break(config_.host + " keeps the store of a generation that is over");
  }
  if (state.phase == AgentPhase::kRunning && state.placement->group_rank == 0 &&
      stores_.open() != state.placement->store) {
    simulation_.laws.Break("nobody listens at the store of generation " +
                           std::to_string(state.placement->generation.value));
  }
  const std::optional<Time> since = workers_.starting_since();
  const bool lasts = since && simulation_.agenda.Now() > *since + kStartLasts;
  if (state.phase == AgentPhase::kRunning && loop_.on_time() &&
      (since ? lasts && !state.start_lasts : state.start_lasts)) {
    simulation_.laws.Break(config_.host + " does not say whether its workers' start lasts");
  }
}

}  // namespace ddprun::sim
