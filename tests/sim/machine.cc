#include "tests/sim/machine.h"

#include <algorithm>
#include <utility>

#include "agent/core/describe.h"
#include "common/overload.h"
#include "tests/sim/candidate.h"
#include "tests/sim/server.h"
#include "tests/sim/simulation.h"

namespace ddprun::sim {
namespace {

constexpr std::uint64_t kAgentPace = 400;  // Wake-ups per simulated second.
constexpr int kSigKill = 9;

std::string WithoutNumber(const std::string& text) {
  const std::size_t from = text.find('(');
  return from == std::string::npos ? text : text.substr(from);
}

}  // namespace

Machine::Machine(Simulation& simulation, std::uint32_t index)
    : simulation_(simulation), index_(index), server_(simulation.server.get()) {
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
}

void Machine::Tell(const std::string& text) {
  simulation_.transcript.Tell(simulation_.agenda.Now(), config_.host, text);
}

void Machine::Start() {
  if (!agent_) {
    powered_ = true;
  }
  if (bare_) {
    candidate_->Start();
    return;
  }
  if (agent_ || ended_) {
    return;
  }
  if (placement_) {
    wants_start_ = true;  // The slot lock is held until nothing is left.
    return;
  }
  wants_start_ = false;
  ++life_;
  call_ = {};
  inbox_.clear();
  paused_ = false;
  agent_.emplace();
  said_.clear();
  if (candidate_ != nullptr) {
    server_ = nullptr;
  }
  Tell("(starts)");
  Feed(Started{{simulation_.random.Next()}, NextStore()});
  if (candidate_ != nullptr) {
    candidate_->Start();
  }
}

Endpoint Machine::NextStore() {
  return {config_.host, static_cast<std::uint16_t>(1000 + ++ports_)};
}

void Machine::EndAgent() {
  ++life_;
  ++timer_;
  agent_.reset();
  inbox_.clear();
  paused_ = false;
}

void Machine::Crash(bool noticed) {
  if (candidate_ != nullptr) {
    candidate_->Kill();
  }
  if (!agent_) {
    return;
  }
  Tell("(the agent crashes)");
  EndAgent();
  if (noticed) {
    TellServerClosed(call_, false);
  }
  simulation_.agenda.After(simulation_.random.Between(Duration{1}, Duration{500}),
                           [this, batch = batch_] {
                             if (batch == batch_) {
                               KillAll();
                             }
                           });
}

void Machine::PowerOff(bool noticed) {
  if (!agent_ && (candidate_ == nullptr || !candidate_->up())) {
    return;
  }
  Tell("(loses power)");
  EndAgent();
  powered_ = false;
  if (candidate_ != nullptr) {
    candidate_->Kill();
  }
  if (noticed) {
    TellServerClosed(call_, false);
  }
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    EndWorker(batch_, i, Killed{kSigKill}, false);
  }
}

void Machine::Pause() {
  if (agent_ && !paused_) {
    Tell("(the agent stands still)");
    simulation_.laws.OnPause(config_.host);
    paused_ = true;
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
  if (!paused_) {
    return;
  }
  Tell("(the agent goes on)");
  paused_ = false;
  const std::uint64_t life = life_;
  if (simulation_.random.Chance(0.5)) {
    Handle(AgentTick{});  // The timer may be found before what has arrived, or after it.
  }
  while (life == life_ && !paused_ && !inbox_.empty()) {
    const AgentEvent event = std::move(inbox_.front());
    inbox_.pop_front();
    Handle(event);
  }
  if (life == life_) {
    Handle(AgentTick{});
  }
}

void Machine::SetLink(bool up, bool noticed) {
  if (link_ == up) {
    return;
  }
  Tell(up ? "(network is back)" : "(network is gone)");
  if (!up && noticed) {
    TellServerClosed(call_, true);
    if (agent_ && call_.open) {
      FailCall(life_, call_, "connection reset");
    }
  }
  link_ = up;
}

void Machine::ServerGone(const Server& server) {
  const bool reaches = simulation_.Linked(*this, Way::kToMachine, server);
  if (call_.to != &server || !reaches || !call_.open || !link_ ||
      simulation_.random.Chance(simulation_.setup.weather.notice_lost)) {
    return;
  }
  simulation_.agenda.After(simulation_.Delay(), [this, life = life_, call = call_] {
    FailCall(life, call, "connection reset");
  });
}

bool Machine::Works(WorldId world) const {
  return agent_ && agent_->phase == AgentPhase::kRunning && agent_->leaving == Leaving::kNo &&
         agent_->failures.empty() && placement_ && placement_->world_id == world;
}

void Machine::SetWays(bool speaks, bool hears) {
  if (speaks != speaks_ || hears != hears_) {
    Tell(!speaks ? "(cannot speak)" : !hears ? "(hears nothing)" : "(speaks and hears again)");
  }
  speaks_ = speaks;
  hears_ = hears;
}

void Machine::Signal(int signal) {
  if (agent_) {
    Tell("(gets " + SignalName(signal) + ")");
    Feed(SignalArrived{signal});
  }
}

void Machine::Feed(const AgentEvent& event) {
  if (!agent_) {
    return;
  }
  if (paused_) {
    if (!std::holds_alternative<AgentTick>(event)) {
      inbox_.push_back(event);
    }
    return;
  }
  Handle(event);
}

void Machine::Handle(const AgentEvent& event) {
  const Time now = simulation_.agenda.Now();
  simulation_.laws.OnWoken(config_.host, now, kAgentPace);
  if (simulation_.setup.mutation.forget_floor && std::holds_alternative<Replied>(event)) {
    agent_->floor = {};
  }
  if (simulation_.setup.mutation.no_fence_kill) {
    agent_->answered = now;
  }
  const std::vector<AgentEffect> effects = Step(*agent_, config_, event, now);
  simulation_.transcript.Mark(
      now, event.index() + 16 * static_cast<std::uint64_t>(agent_->phase) + 256 * agent_->sequence);
  for (const AgentEffect& effect : effects) {
    if (agent_) {
      CarryOut(effect);
    }
  }
  Arm();
}

void Machine::Arm() {
  const std::uint64_t token = ++timer_;
  if (!agent_) {
    return;
  }
  if (const auto wake = NextWake(*agent_, config_)) {
    simulation_.agenda.At(*wake, [this, token] {
      if (token == timer_) {
        Feed(AgentTick{});
      }
    });
  }
}

void Machine::CarryOut(const AgentEffect& effect) {
  if (simulation_.transcript.words()) {
    const std::string text = Describe(effect);
    const bool report = std::holds_alternative<SendReport>(effect);
    if (!report || WithoutNumber(text) != std::exchange(said_, WithoutNumber(text))) {
      Tell(text);
    }
  }
  std::visit(Overload{
                 [&](const SendReport& send) { Send(send); },
                 [&](const Spawn& spawn) { SpawnWorkers(spawn.placement); },
                 [&](const SignalWorkers& sent) { SignalAll(sent.signal); },
                 [&](const KillWorkers&) { KillAll(); },
                 [&](const TakeStacks& take) {
                   simulation_.agenda.After(
                       simulation_.random.Between(Duration{10}, Duration{6'000}),
                       [this, life = life_, take] {
                         if (life == life_) {
                           Feed(StacksTaken{take.generation});
                         }
                       });
                 },
                 [&](const Exit& exit) {
                   exit_ = exit;
                   ended_ = true;
                   EndAgent();
                   TellServerClosed(call_, false);
                   if (candidate_ != nullptr) {
                     candidate_->AgentEnded(exit.code);
                   }
                   simulation_.laws.OnExit(config_.host, config_.node, exit.finish);
                 },
                 [&](const Say&) {},
             },
             effect);
}

void Machine::Send(const SendReport& send) {
  if (call_.open) {
    TellServerClosed(call_, false);
  }
  const NodeReport& report = send.report;
  const NodeKey key{report.node, report.incarnation};
  call_ = Call{key, report.sequence, true, 0, server_};
  sent_ = send;
  Forward();
}

void Machine::Forward() {
  call_.server_life = call_.to == nullptr ? 0 : call_.to->life();
  const Call call = call_;
  const std::uint64_t life = life_;
  if (call.to != nullptr) {
    const auto answer = [this, call, life](const std::optional<SyncReply>& reply) {
      simulation_.Deliver(*this, Way::kToMachine, *call.to,
                          [this, call, life, reply] { OnReply(life, call, reply); });
    };
    simulation_.Deliver(*this, Way::kToServer, *call.to, [report = sent_.report, call, answer] {
      call.to->OnCall(report, call.server_life, answer);
    });
  }
  simulation_.agenda.After(sent_.deadline, [this, call, life] {
    FailCall(life, call, "no answer from server:29400 in time");
  });
  if (simulation_.random.Chance(simulation_.setup.weather.cut)) {
    simulation_.agenda.After(simulation_.random.Between(Duration{1}, sent_.deadline),
                             [this, call, life] { FailCall(life, call, "connection reset"); });
  }
}

void Machine::Follow(Server* server) {
  server_ = server;
  if (!agent_ || !call_.open || call_.to == server) {
    return;
  }
  TellServerClosed(call_, false);
  call_.to = server;
  ++call_.attempt;
  Forward();
}

void Machine::FailCall(std::uint64_t life, const Call& call, const std::string& text) {
  if (life != life_ || !call_.open || call_.sequence != call.sequence || call_.key != call.key ||
      call_.attempt != call.attempt) {
    return;
  }
  call_.open = false;
  TellServerClosed(call, false);
  Feed(CallFailed{call.sequence, text});
}

void Machine::OnReply(std::uint64_t life, const Call& call, const std::optional<SyncReply>& reply) {
  if (life != life_) {
    return;
  }
  const bool newest = call_.sequence == call.sequence && call_.key == call.key;
  if (!reply) {
    FailCall(life, call, "refused");
    return;
  }
  if (newest && call_.attempt != call.attempt) {
    return;  // It was taken back from that server.
  }
  if (newest) {
    call_.open = false;
    if (candidate_ != nullptr) {
      candidate_->Heard(*reply);
    }
  }
  // An overtaken call's answer is the core's to drop.
  const bool believed = newest || simulation_.setup.mutation.believe_old_replies;
  Feed(Replied{believed ? agent_->sequence : call.sequence, *reply, {simulation_.random.Next()}});
}

void Machine::TellServerClosed(const Call& call, bool sure) {
  const bool lost = !link_ || simulation_.random.Chance(simulation_.setup.weather.notice_lost);
  if (call.sequence == 0 || call.to == nullptr || (lost && !sure)) {
    return;
  }
  simulation_.agenda.After(simulation_.Delay(), [this, call] {
    if (simulation_.Linked(*this, Way::kToServer, *call.to)) {
      call.to->OnClosed(call.key, call.sequence, call.server_life);
    }
  });
}

bool Machine::AnyWorker() const {
  return std::any_of(workers_.begin(), workers_.end(), [](const Worker& w) { return w.alive; });
}

}  // namespace ddprun::sim
