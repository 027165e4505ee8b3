#include "tests/sim/server.h"

#include <algorithm>
#include <utility>

#include "common/overload.h"
#include "tests/sim/machine.h"
#include "tests/sim/simulation.h"

namespace ddprun::sim {

// The product's, with a look at each step and at each call.
class Server::Driver final : public CoordinatorDriver {
 public:
  Driver(Server& server, const CoordinatorConfig& config)
      : CoordinatorDriver(server.loop_, config), server_(server) {}
  // What it has posted may still come.
  ~Driver() override {
    if (server_.host_ && !server_.ends_) {
      server_.simulation_.laws.Break(server_.name_ + " is gone while its process goes on");
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
    const auto* const ended = std::get_if<CallEnded>(&event);
    CoordinatorEffects effects = CoordinatorDriver::TakeStep(
        state, ended == nullptr ? event : server_.Spoiled(*ended, state), now);
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
  if (server_.simulation_.setup.mutation.believe_old_reports) {
    report.sequence = ++server_.arrivals_[{report.node, report.incarnation}];
  }
  server_.NoteForgotten();
  auto counted = std::make_shared<Call>(server_, report, std::move(call));
  CoordinatorDriver::OnReport(std::move(report), std::move(counted));
  server_.highest_term_ = std::max(server_.highest_term_, config().term);
}

// What the journal's file says.
class Server::Disk final : public JournalDisk {
 public:
  explicit Disk(Laws& laws) : laws_(laws) {}

  Result<void> Append(const JournalEntry& entry) override {
    std::visit(Overload{
                   [&](const ddprun::Reign&) {},  // No clock of a server with a journal goes back.
                   [&](const RunRecord& record) {
                     run_ = record;
                     laws_.OnKept(record);
                   },
                   [&](const Forgotten&) { run_.reset(); },
               },
               entry);
    return {};
  }
  void Lose() { run_.reset(); }
  std::vector<RunRecord> Runs() const {
    return run_ ? std::vector{*run_} : std::vector<RunRecord>{};
  }

 private:
  Laws& laws_;
  std::optional<RunRecord> run_;
};

Server::Server(Simulation& simulation)
    : simulation_(simulation),
      name_("server"),
      own_loop_(std::make_unique<ProcessLoop>(simulation.agenda, simulation.random)),
      loop_(*own_loop_) {
  Configure();
  loop_.AfterEachTurn([this] { CheckOpenCalls(); });
  if (simulation.setup.journal) {
    disk_ = std::make_shared<Disk>(simulation.laws);
  }
  Begin(config_);
}

Server::Server(Simulation& simulation, std::uint32_t host, ProcessLoop& loop)
    : simulation_(simulation), host_(host), name_("server" + std::to_string(host)), loop_(loop) {
  Configure();
}

void Server::Configure() {
  config_.term = highest_term_ = {7};
  config_.seed = simulation_.random.Next();
  config_.stop_grace = Duration{2'000};
  config_.shutdown_timeout = Duration{4'000};
  config_.start_timeout = Duration{5'000};
  if (simulation_.setup.mutation.no_disconnect_grace) {
    config_.disconnect_grace = Duration{0};
  }
  config_.run_bytes = simulation_.setup.run_bytes.value_or(config_.run_bytes);
}

// What is parked is not answered.
Server::~Server() {
  ++life_;
  own_.reset();
}

const CoordinatorState& Server::state() const {
  static const CoordinatorState none;
  if (!driver_) {
    return last_;
  }
  const CoordinatorState* const run = driver_->StateOf("run");
  return run == nullptr ? none : *run;
}

void Server::Begin(const CoordinatorConfig& config) {
  ++life_;
  own_ = std::make_unique<Driver>(*this, config);
  driver_ = own_.get();
  if (disk_) {
    driver_->UseJournal(std::make_unique<Journal>(loop_, disk_), disk_->Runs());
  }
  knew_run_ = driver_->StateOf("run") != nullptr;
}

// ---- Its process ----
void Server::Crash() {
  if (!up()) {
    return;
  }
  simulation_.transcript.Tell(simulation_.agenda.Now(), name_, "(is killed)");
  loop_.Kill();
  Vanish();
  own_.reset();
}

void Server::Vanish() {
  ends_ = true;
  if (up() && !disk_) {
    simulation_.laws.OnHistoryLost();
  }
  if (up() || listens()) {
    for (const auto& machine : simulation_.machines) {
      machine->ServerGone(*this);
    }
  }
  if (life_ % 2 == 1) {
    ++life_;
  }
  handlers_.reset();
  if (up()) {
    SteppedDown();
  }
}

void Server::Start() {
  if (up()) {
    return;
  }
  const Time now = simulation_.agenda.Now();
  config_.seed = simulation_.random.Next();
  if (simulation_.setup.clock_jumps && !disk_) {
    config_.term = {simulation_.random.Between(1, highest_term_.value + 1)};
  } else {
    config_.term = highest_term_ = highest_term_.Next();
  }
  const bool knows = disk_ && !disk_->Runs().empty();
  simulation_.transcript.Tell(now, name_, knows ? "(starts with its journal)" : "(starts)");
  simulation_.laws.OnServerStart(now);
  Begin(config_);
}

void Server::LoseJournal() {
  if (!disk_ || up()) {
    return;
  }
  simulation_.transcript.Tell(simulation_.agenda.Now(), name_, "(its journal is lost)");
  disk_->Lose();
  simulation_.laws.OnHistoryLost();
}

void Server::Pause() {
  if (!up()) {
    return;
  }
  loop_.Pause();
  simulation_.transcript.Tell(simulation_.agenda.Now(), name_, "(stands still)");
}

void Server::Resume() {
  if (!loop_.paused()) {
    return;
  }
  simulation_.transcript.Tell(simulation_.agenda.Now(), name_, "(goes on)");
  loop_.Resume(/*timers_first=*/simulation_.random.Chance(0.5));
}

// ---- One of several, on a machine ----
CoordinatorConfig Server::NewReign(Term clock) {
  CoordinatorConfig reign = config_;
  reign.term = clock;
  reign.seed = simulation_.random.Next();
  return reign;
}

std::unique_ptr<CoordinatorDriver> Server::Reign(const CoordinatorConfig& reign, bool successor) {
  ends_ = false;
  simulation_.laws.OnServerStart(simulation_.agenda.Now());
  auto driver = std::make_unique<Driver>(*this, reign);
  driver_ = driver.get();
  knew_run_ = false;
  successor_ = successor;
  began_ = simulation_.agenda.Now();
  return driver;
}

void Server::SteppedDown() {
  last_ = state();
  arrivals_.clear();
  driver_ = nullptr;
}

void Server::Listen(const RendezvousHandlers& handlers) {
  ++life_;
  handlers_ = handlers;
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

std::optional<Result<WitnessAnswer>> Server::AskWitness(const WitnessRequest& request) {
  return handlers_ ? std::optional(handlers_->witness(request)) : std::nullopt;
}

bool Server::MayBeLookedFor() const {
  return successor_ && simulation_.agenda.Now() < began_ + config_.base_lease;
}

// ---- What arrives ----
// What was sent while nobody was there was tried anew.
bool Server::IsTo(std::uint64_t life) const {
  return life_ % 2 == 1 && (life == life_ || life % 2 == 0);
}

void Server::OnCall(const NodeReport& report, std::uint64_t life, Answer answer) {
  if (!IsTo(life)) {
    answer(std::nullopt);
    return;
  }
  loop_.Arrive([this, report, answer = std::move(answer)] {
    auto call = std::make_shared<FarCall>(*this, answer);
    if (handlers_) {
      handlers_->sync(report, std::move(call));
    } else if (up()) {
      driver_->OnReport(report, std::move(call));
    }
  });
}

void Server::OnClosed(const NodeKey& key, std::uint64_t sequence, std::uint64_t life) {
  if (!IsTo(life)) {
    return;
  }
  loop_.Arrive([this, name = CallName{"run", key.node, key.incarnation, sequence}] {
    if (handlers_) {
      handlers_->cancel(name);
    } else if (up()) {
      driver_->OnCancel(name);
    }
  });
}

// Who comes later than that begins another run of the same name.
void Server::NoteForgotten() {
  const bool knows = driver_->StateOf("run") != nullptr;
  if (knew_run_ && !knows) {
    simulation_.laws.OnOutcomeForgotten();
  }
  knew_run_ = true;
}

}  // namespace ddprun::sim
