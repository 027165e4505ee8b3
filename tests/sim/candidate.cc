#include "tests/sim/candidate.h"

#include <utility>

#include "rendezvous/core/recovery.h"
#include "tests/sim/channel.h"
#include "tests/sim/claims.h"
#include "tests/sim/machine.h"
#include "tests/sim/simulation.h"

namespace ddprun::sim {
namespace {

using std::chrono_literals::operator""h;
using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;

constexpr int kUnavailable = 69;
constexpr Duration kClosedWithin{5'000};

}  // namespace

Endpoint PlaceOf(std::uint32_t index) {
  return {"n" + std::to_string(index), 29400};
}

// The product's, with a look at each step.
class Candidate::Driver final : public SuccessionDriver {
 public:
  Driver(Candidate& candidate, SuccessionOptions options, FollowingChannel* channel)
      : SuccessionDriver(candidate.loop_, std::move(options), channel), candidate_(candidate) {}

 private:
  std::vector<SuccessionEffect> TakeStep(SuccessionState& state, const SuccessionConfig& config,
                                         const SuccessionEvent& event, Time now) override {
    candidate_.Spoil(state, event);
    auto effects = SuccessionDriver::TakeStep(state, config, event, now);
    candidate_.OnStep(event, effects);
    return effects;
  }
  std::unique_ptr<CoordinatorDriver> NewCoordinator(Loop& /*loop*/,
                                                    const CoordinatorConfig& reign) override {
    return candidate_.server_.Reign(reign, candidate_.take_.successor);
  }

  Candidate& candidate_;
};

// This machine's one port.
class Candidate::Listener final : public ListeningServer {
 public:
  Listener(Server& server, RendezvousHandlers handlers)
      : server_(server), handlers_(std::move(handlers)) {}
  ~Listener() override { Shutdown(); }

  Result<Endpoint> ListenAt(const ListenPlace& place) override {
    listens_ = true;
    server_.Listen(handlers_);
    return place.endpoint;
  }
  void Shutdown() override {
    if (std::exchange(listens_, false)) {
      server_.StopListening();
    }
  }

 private:
  Server& server_;
  const RendezvousHandlers handlers_;
  bool listens_ = false;
};

class Candidate::Network final : public ServingNetwork {
 public:
  explicit Network(Candidate& candidate) : candidate_(candidate) {}

  std::unique_ptr<ListeningServer> NewServer(RendezvousHandlers handlers) override {
    return std::make_unique<Listener>(candidate_.server_, std::move(handlers));
  }
  Result<ListenPlace> LookUp(const Endpoint& endpoint) const override {
    Fiber& caller = Fiber::Current();
    if (!candidate_.names_) {
      caller.Sleep(1h);
    }
    return ListenPlace{endpoint, {}};
  }
  std::unique_ptr<SyncChannel> ChannelTo(const Endpoint& endpoint) override {
    for (const auto& other : candidate_.simulation_.candidates) {
      if (PlaceOf(other->index_) == endpoint) {
        return std::make_unique<SimChannel>(candidate_.simulation_, candidate_.machine_,
                                            other->server_);
      }
    }
    return nullptr;
  }

 private:
  Candidate& candidate_;
};

Candidate::Candidate(Simulation& simulation, std::uint32_t index)
    : simulation_(simulation),
      index_(index),
      machine_(*simulation.machines.at(index)),
      loop_(simulation.agenda, simulation.random),
      server_(simulation, index, loop_) {
  clock_ = static_cast<std::int64_t>(simulation.random.Below(40'000)) - 20'000;
  loop_.AfterEachTurn([this] { LookAround(); });
}

Candidate::~Candidate() {
  Kill();
}

void Candidate::Tell(const std::string& text) {
  simulation_.transcript.Tell(simulation_.agenda.Now(), "n" + std::to_string(index_), text);
}

// ---- The process ----
SuccessionOptions Candidate::Options() {
  const Setup& setup = simulation_.setup;
  SuccessionOptions options;
  options.core.listens = !machine_.bare();
  options.core.given = PlaceOf(0);
  if (setup.listed > 0) {
    std::vector<Endpoint> list;
    for (std::uint32_t i = 0; i < setup.listed; ++i) {
      list.push_back(PlaceOf(i));
    }
    options.core.listed = true;
    options.core.claims = "the majority of the list";
    options.core.thirds_to_let_go = kThirdsToLetGo;
    options.list = DigestOf(list);
    options.claims = std::make_shared<WitnessClaims>(
        list, std::make_unique<SimWitnessCalls>(simulation_, index_));
  } else {
    options.claims = std::make_shared<SimDirectory>(simulation_, [this] { return directory_; });
  }
  options.network = std::make_shared<Network>(*this);
  options.places = {PlaceOf(index_)};
  options.fence_after = setup.shape.fence_after;
  options.new_reign = [this] {
    const auto wall =
        static_cast<std::uint64_t>(simulation_.agenda.Now().time_since_epoch() / 1ms + clock_);
    return server_.NewReign(TermOf(wall));
  };
  options.on_serving = [this](const NewServer&) { OnServing(); };
  options.on_stepped_down = [this] { OnSteppedDown(); };
  return options;
}

void Candidate::Start() {
  if (up_) {
    return;
  }
  up_ = true;
  ending_ = agent_ended_ = false;
  ++life_;
  disturbed_ = simulation_.agenda.Now();
  if (!machine_.bare()) {
    channel_ = std::make_unique<FollowingChannel>(loop_);
  }
  driver_ = std::make_unique<Driver>(*this, Options(), channel_.get());
  Listen();
  loop_.Arrive([this] { driver_->Start(); });
}

// Who holds the endpoint given, or is on the list, has bound it before.
void Candidate::Listen() {
  if (index_ < std::max(simulation_.setup.listed, 1u)) {
    auto server = std::make_unique<Listener>(server_, driver_->Handlers());
    (void)server->ListenAt({PlaceOf(index_), {}});
    driver_->UseServer(std::move(server), PlaceOf(index_), index_);
  }
}

void Candidate::Kill() {
  if (!up_) {
    return;
  }
  up_ = false;
  ++life_;
  closing_.reset();
  server_.Vanish();
  driver_.reset();
  channel_.reset();
  loop_.Kill();
}

void Candidate::Pause() {
  if (up_ && !closing_) {
    disturbed_ = simulation_.agenda.Now();
    loop_.Pause();
  }
}

void Candidate::Resume() {
  if (up_ && !closing_ && loop_.paused()) {
    disturbed_ = simulation_.agenda.Now();
    loop_.Resume(/*timers_first=*/simulation_.random.Chance(0.5));
  }
}

void Candidate::SetDirectory(bool reachable) {
  directory_ = reachable;
  disturbed_ = simulation_.agenda.Now();
}

bool Candidate::serves() const {
  return up_ && driver_->state().phase == SuccessionPhase::kServing;
}

const Server* Candidate::speaks_to() const {
  if (serves()) {
    return &server_;
  }
  for (const auto& other : simulation_.candidates) {
    if (up_ && driver_->state().following == PlaceOf(other->index_)) {
      return &other->server_;
    }
  }
  return nullptr;
}

void Candidate::AgentEnded(int exit_code) {
  agent_ended_ = true;
  channel_->Cancel();
  if (!serves() || exit_code == kUnavailable) {
    EndProcess();
  } else {
    EndWhenUnneeded();
  }
}

void Candidate::EndWhenUnneeded() {
  driver_->coordinator()->WhenUnneeded([this] {
    Tell("(serves no longer: nobody needs it)");
    if (server_.MayBeLookedFor()) {
      simulation_.laws.Break("a server ends before those it took over could find it");
    }
    EndProcess();
  });
}

// Its loop ends first.
void Candidate::EndProcess() {
  if (!std::exchange(ending_, true)) {
    simulation_.agenda.After(Duration{0}, [this, life = life_] {
      if (life == life_) {
        Close();
      }
    });
  }
}

void Candidate::Close() {
  loop_.Pause();
  const std::optional<std::uint64_t> held = serves() ? driver_->state().own : std::nullopt;
  const bool over = held && driver_->coordinator()->RunsHaveEnded();
  if (over) {
    simulation_.laws.OnRunForgotten();
  }
  const bool reachable = directory_ && simulation_.run_directory && simulation_.setup.listed == 0;
  const Time began = simulation_.agenda.Now();
  closing_ = std::make_unique<Fiber>(
      simulation_.agenda, [this, held, over, reachable, began](Fiber& fiber) {
        driver_->Close();
        if (fiber.abandoned()) {
          return;
        }
        if (held && reachable && disturbed_ < began) {
          const Claim& claim = simulation_.run_directory->claims().at(*held);
          if (!claim.closed || claim.over != over) {
            simulation_.laws.Break(
                "who ends leaves claim " + std::to_string(*held) +
                (claim.closed ? " that is not what has become of its run" : " open"));
          }
        }
        simulation_.agenda.After(Duration{0}, [this, life = life_] {
          if (life == life_) {
            Kill();
          }
        });
      });
}

// ---- Around a step of the core ----
void Candidate::Spoil(SuccessionState& state, const SuccessionEvent& event) {
  const Mutation& mutation = simulation_.setup.mutation;
  if (const auto* const read = std::get_if<DirectoryRead>(&event)) {
    const bool known = read->newest && state.newest && read->newest->number == state.newest->number;
    if (mutation.no_standstill && known && state.still_since) {
      state.still_since = Time{};
      state.newest->counter = read->newest->counter;
    }
    if (mutation.no_silence && known) {
      state.heard = Time{};
    }
  }
  if (mutation.no_lenience) {
    state.stepped = simulation_.agenda.Now();
  }
  if (mutation.keep_serving && state.phase == SuccessionPhase::kServing) {
    state.kept = simulation_.agenda.Now();
  }
}

void Candidate::OnStep(const SuccessionEvent& event, const std::vector<SuccessionEffect>& effects) {
  simulation_.transcript.Mark(simulation_.agenda.Now(), event.index() + 16 * index_ + 4096);
  for (const SuccessionEffect& effect : effects) {
    if (const auto* const take = std::get_if<TakeClaim>(&effect)) {
      take_ = *take;
    } else if (const auto* const follow = std::get_if<Follow>(&effect)) {
      Tell("(follows " + ToString(follow->endpoint) + ")");
    } else if (const auto* const down = std::get_if<StepDown>(&effect)) {
      Tell("(its server steps down: " + down->text + ")");
      ExpectClosed(down->claim.number);
    } else if (const auto* const notice = std::get_if<Notice>(&effect)) {
      Tell(notice->text);
    }
  }
}

void Candidate::OnServing() {
  const Term term = driver_->coordinator()->config().term;
  Tell("(serves with claim " + std::to_string(take_.number) + ", term " +
       std::to_string(term.value) + (take_.successor ? ", as a successor)" : ")"));
  simulation_.laws.OnReign(term);
  if (!take_.successor && simulation_.setup.listed > 0) {
    simulation_.laws.OnRunForgotten();
  }
  if (agent_ended_) {
    EndWhenUnneeded();
  }
}

void Candidate::OnSteppedDown() {
  server_.SteppedDown();
  if (agent_ended_) {
    EndProcess();
  }
}

// ---- What must be true of it ----
void Candidate::LookAround() {
  if (server_.up()) {
    server_.CheckOpenCalls();
  }
  const SuccessionState& state = driver_->state();
  if (simulation_.setup.listed == 0 && server_.listens() &&
      state.phase == SuccessionPhase::kFollowing && (state.following || state.own)) {
    simulation_.laws.Break("n" + std::to_string(index_) + " listens for calls, and does not serve");
  }
}

// What was let go of is closed as soon as the directory takes it.
void Candidate::ExpectClosed(std::uint64_t number) {
  if (simulation_.setup.listed > 0) {
    return;
  }
  simulation_.agenda.After(kClosedWithin, [this, life = life_, number] {
    const auto& claims = simulation_.run_directory->claims();
    if (life != life_ || !claims.contains(number) || claims.at(number).closed ||
        claims.rbegin()->first > number) {
      return;
    }
    if (!directory_ || paused() || disturbed_ + kClosedWithin > simulation_.agenda.Now()) {
      ExpectClosed(number);
    } else {
      simulation_.laws.Break("claim " + std::to_string(number) + " was let go, and stays open");
    }
  });
}

}  // namespace ddprun::sim
