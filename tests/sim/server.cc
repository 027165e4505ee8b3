#include "tests/sim/server.h"

#include <utility>

#include "common/overload.h"
#include "tests/sim/machine.h"
#include "tests/sim/simulation.h"

namespace ddprun::sim {

// The product's, with a look at each step.
class Server::Driver final : public CoordinatorDriver {
 public:
  Driver(Server& server, const CoordinatorConfig& config)
      : CoordinatorDriver(server.loop_, config), server_(server) {}

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

class Server::Call final : public PendingSync {
 public:
  Call(Server& server, const NodeReport& report, Server::Answer answer)
      : server_(server),
        life_(server.life_),
        number_(++server.last_call_),
        answer_(std::move(answer)) {
    server_.calls_[number_] = {{report.node, report.incarnation}, report.sequence, report.echo};
  }
  ~Call() override { End(std::nullopt); }

  void Answer(const SyncReply& reply) override {
    server_.OnAnswer(server_.calls_.at(number_), reply.directive);
    End(reply);
  }
  void Refuse(const Error& /*error*/) override { End(std::nullopt); }

 private:
  // Nothing comes from a process that was killed, nor to a client that has given the call up.
  void End(const std::optional<SyncReply>& reply) {
    if (!answer_) {
      return;
    }
    const bool given_up = !reply && server_.IsClosing(server_.calls_.at(number_));
    server_.calls_.erase(number_);
    const auto answer = std::exchange(answer_, nullptr);
    if (life_ == server_.life_ && !given_up) {
      answer(reply);
    }
  }

  Server& server_;
  const std::uint64_t life_;
  const std::uint64_t number_;
  Server::Answer answer_;
};

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

Server::Server(Simulation& simulation, std::optional<std::uint32_t> host)
    : simulation_(simulation),
      host_(host),
      name_(host ? "server" + std::to_string(*host) : "server"),
      loop_(simulation.agenda, simulation.random) {
  config_.term = highest_term_ = {7};
  config_.seed = simulation.random.Next();
  config_.stop_grace = Duration{2'000};
  config_.shutdown_timeout = Duration{4'000};
  config_.start_timeout = Duration{5'000};
  if (simulation.setup.mutation.no_disconnect_grace) {
    config_.disconnect_grace = Duration{0};
  }
  config_.run_bytes = simulation.setup.run_bytes.value_or(config_.run_bytes);
  loop_.AfterEachTurn([this] { CheckOpenCalls(); });
  if (host_) {
    return;
  }
  if (simulation.setup.journal) {
    disk_ = std::make_shared<Disk>(simulation.laws);
  }
  Begin(config_);
}

// What is parked is not answered.
Server::~Server() {
  ++life_;
  driver_.reset();
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
  driver_ = std::make_unique<Driver>(*this, config);
  if (disk_) {
    driver_->UseJournal(std::make_unique<Journal>(loop_, disk_), disk_->Runs());
  }
  if (on_later_term_) {
    driver_->OnLaterTerm(on_later_term_);
  }
  knew_run_ = driver_->StateOf("run") != nullptr;
}

// ---- Its process ----
void Server::Crash() {
  End(/*refuses=*/false);
}

void Server::End(bool refuses) {
  if (!up()) {
    return;
  }
  simulation_.transcript.Tell(simulation_.agenda.Now(), name_, "(is killed)");
  loop_.Kill();
  if (!disk_) {
    simulation_.laws.OnHistoryLost();
  }
  for (const auto& machine : simulation_.machines) {
    machine->ServerGone(*this);
  }
  last_ = state();
  if (refuses) {
    driver_->Retire();
  }
  ++life_;
  arrivals_.clear();
  driver_.reset();
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
void Server::Reign(Term term, bool successor) {
  config_.term = term;
  config_.seed = simulation_.random.Next();
  simulation_.laws.OnServerStart(simulation_.agenda.Now());
  Begin(config_);
  successor_ = successor;
  began_ = simulation_.agenda.Now();
  if (successor) {
    driver_->Succeed();
  }
}

bool Server::MayBeLookedFor() const {
  return successor_ && simulation_.agenda.Now() < began_ + config_.base_lease;
}

void Server::ClaimIsGood(Time until) {
  if (up()) {
    loop_.Arrive([this, until] { driver_->ClaimIsGood(until); });
  }
}

void Server::StepDown() {
  End(/*refuses=*/true);
}

// ---- What arrives ----
// What was sent while nobody was there was tried anew.
bool Server::IsTo(std::uint64_t life) const {
  return up() && (life == life_ || life % 2 == 0);
}

void Server::OnCall(const NodeReport& report, std::uint64_t life, Answer answer) {
  if (!IsTo(life)) {
    answer(std::nullopt);
    return;
  }
  loop_.Arrive([this, report, answer = std::move(answer)] { Accept(report, answer); });
}

void Server::Accept(NodeReport report, Answer answer) {
  if (simulation_.setup.mutation.believe_old_reports) {
    report.sequence = ++arrivals_[{report.node, report.incarnation}];
  }
  NoteForgotten();
  auto call = std::make_shared<Call>(*this, report, std::move(answer));
  driver_->OnReport(std::move(report), std::move(call));
  highest_term_ = std::max(highest_term_, driver_->config().term);
}

void Server::OnClosed(const NodeKey& key, std::uint64_t sequence, std::uint64_t life) {
  if (!IsTo(life)) {
    return;
  }
  loop_.Arrive([this, key, sequence] {
    closing_ = Asked{key, sequence, {}};
    driver_->OnCancel({"run", key.node, key.incarnation, sequence});
    closing_.reset();
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
