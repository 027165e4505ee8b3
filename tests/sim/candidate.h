// The part of a machine's process that may host the server: the product's failover driver, with
// claims in a simulated run directory. Lives as long as the process.
//
// Decides nothing about who serves. A server that stands alone on its machine is one without an
// agent beside it. This header: how the process ends, and the conditions on it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/exit_code.h"
#include "rendezvous/failover/failover_driver.h"
#include "rendezvous/failover/following_channel.h"
#include "tests/sim/channel.h"
#include "tests/sim/claims.h"
#include "tests/sim/fiber.h"
#include "tests/sim/machine.h"
#include "tests/sim/simulation.h"

namespace ddprun::sim {

class Candidate {
 public:
  // `channel`: of its agent; none: it is alone.
  Candidate(Simulation& simulation, Machine& machine, FollowingChannel* channel)
      : simulation_(simulation),
        machine_(machine),
        channel_(channel),
        driver_(std::make_unique<Driver>(*this, Options(), channel)) {
    // A candidate that holds the endpoint given has bound it before.
    if (machine.index() == 0) {
      auto server = std::make_unique<Listener>(machine.server(), driver_->Handlers());
      (void)server->ListenAt({PlaceOf(0), {}});
      driver_->UseServer(std::move(server), PlaceOf(0));
    }
    machine.loop().Arrive([this] { driver_->Start(); });
  }

  // As a process of this machine reaches them.
  static std::shared_ptr<Claims> ClaimsOf(Simulation& simulation, Machine& machine) {
    return std::make_shared<SimDirectory>(simulation, machine);
  }

  // It serves on while a node needs it.
  void AgentEnded(int exit_code) {
    agent_ended_ = true;
    channel_->Cancel();
    if (!serves() || exit_code == kExitUnavailable) {
      EndProcess();
    } else {
      EndWhenUnneeded();
    }
  }
  bool serves() const { return driver_->state().phase == FailoverPhase::kServing; }
  bool closes() const { return closing_ != nullptr; }
  const Server* speaks_to() const {
    if (serves()) {
      return &machine_.server();
    }
    const std::optional<Endpoint>& followed = driver_->state().following;
    return followed ? ServerAt(simulation_, *followed) : nullptr;
  }
  void CheckAfterIteration() {
    const FailoverState& state = driver_->state();
    simulation_.laws.BreakIf(machine_.server().listens() &&
                                 state.phase == FailoverPhase::kFollowing &&
                                 (state.following || state.own),
                             machine_.host(), " listens for calls, and does not serve");
  }

 private:
  static constexpr Duration kClosedWithin{5'000};

  // The product's, with a look at each step.
  class Driver final : public FailoverDriver {
   public:
    Driver(Candidate& candidate, FailoverOptions options, FollowingChannel* channel)
        : FailoverDriver(candidate.machine_.loop(), std::move(options), channel),
          candidate_(candidate) {}

   private:
    std::vector<FailoverEffect> TakeStep(FailoverState& state, const FailoverConfig& config,
                                         const FailoverEvent& event, Time now) override {
      auto effects = FailoverDriver::TakeStep(state, config, event, now);
      candidate_.OnStep(event, effects);
      return effects;
    }
    std::unique_ptr<CoordinatorDriver> NewCoordinator(
        Loop& /*loop*/, const CoordinatorConfig& term_config) override {
      return candidate_.machine_.server().BeginTerm(term_config, candidate_.take_.takes_over);
    }

    Candidate& candidate_;
  };

  // This machine's one port.
  class Listener final : public ListeningServer {
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

  class Network final : public ServingNetwork {
   public:
    Network(Simulation& simulation, Machine& machine)
        : simulation_(simulation), machine_(machine) {}

    std::unique_ptr<ListeningServer> NewServer(RendezvousHandlers handlers) override {
      return std::make_unique<Listener>(machine_.server(), std::move(handlers));
    }
    Result<ListenPlace> LookUp(const Endpoint& endpoint) const override {
      if (!simulation_.names) {
        Fiber::Sleep(1h);
      }
      if (simulation_.names_fail) {
        return Error{ErrorKind::kUnavailable, "no address is known of " + endpoint.host};
      }
      return ListenPlace{endpoint, {}};
    }
    std::unique_ptr<SyncChannel> ChannelTo(const Endpoint& endpoint) override {
      Server* const server = ServerAt(simulation_, endpoint);
      return server ? std::make_unique<SimChannel>(simulation_, machine_, *server) : nullptr;
    }

   private:
    Simulation& simulation_;
    Machine& machine_;
  };

  // Where a machine serves, if it does.
  static Endpoint PlaceOf(std::uint32_t index) { return {"n" + std::to_string(index), 29400}; }

  static Server* ServerAt(const Simulation& simulation, const Endpoint& endpoint) {
    for (const auto& machine : simulation.machines) {
      if (PlaceOf(machine->index()) == endpoint) {
        return &machine->server();
      }
    }
    return nullptr;
  }
  FailoverOptions Options() {
    FailoverOptions options;
    options.core.lease = simulation_.setup.base_lease;
    options.core.long_lease = simulation_.setup.long_lease;
    options.core.listens = !machine_.bare();
    options.core.given = PlaceOf(0);
    options.claims = ClaimsOf(simulation_, machine_);
    options.network = std::make_shared<Network>(simulation_, machine_);
    options.places = {PlaceOf(machine_.index())};
    options.tell_guard = [machine = &machine_](const auto& held) { machine->held() = held; };
    options.new_term_config = [this] {
      return machine_.server().NewTermConfig(TermOf(machine_.WallClock()));
    };
    options.on_serving = [this](const NewServer&) { OnServing(); };
    options.on_stepped_down = [this] { OnSteppedDown(); };
    return options;
  }
  void OnStep(const FailoverEvent& event, const std::vector<FailoverEffect>& effects) {
    simulation_.transcript.Mark(simulation_.Now(), event.index() + 16 * machine_.index() + 4096);
    for (const FailoverEffect& effect : effects) {
      if (const auto* const take = std::get_if<TakeClaim>(&effect)) {
        take_ = *take;
      } else if (const auto* const follow = std::get_if<Follow>(&effect)) {
        machine_.Tell("(follows ", ToString(follow->endpoint), ")");
      } else if (const auto* const down = std::get_if<StepDown>(&effect)) {
        machine_.Tell("(its server steps down: ", down->text, ")");
        ExpectClosed(down->claim.number);
      } else if (const auto* const notice = std::get_if<Notice>(&effect)) {
        machine_.Tell(notice->text);
      }
    }
  }
  void OnServing() {
    const Term term = driver_->coordinator()->config().term;
    machine_.Tell("(serves with claim ", take_.number, ", term ", term,
                  take_.takes_over ? ", as a successor)" : ")");
    simulation_.laws.OnReign(term);
    machine_.server().NoteClaim(take_);
    if (!take_.takes_over) {
      simulation_.laws.OnAnotherRun(term);
    }
    if (agent_ended_) {
      EndWhenUnneeded();
    }
  }
  void OnSteppedDown() {
    machine_.server().SteppedDown();
    if (agent_ended_) {
      EndProcess();
    }
  }
  void EndWhenUnneeded() {
    driver_->coordinator()->WhenUnneeded([this] {
      machine_.Tell("(serves no longer: nobody needs it)");
      simulation_.laws.BreakIf(machine_.server().MayBeLookedFor(),
                               "a server ends before those it took over could find it");
      EndProcess();
    });
  }
  // The last thing that a process does. Its loop ends first.
  void EndProcess() {
    if (!std::exchange(ending_, true)) {
      InThisLife(0ms, [this] { Close(); });
    }
  }
  void Close() {
    machine_.loop().Pause();
    const std::optional<std::uint64_t> held =
        serves() ? std::optional(driver_->state().newest->number) : std::nullopt;
    const bool over = held && driver_->coordinator()->RunsHaveEnded();
    if (over) {
      simulation_.laws.run_forgotten = true;
    }
    const bool reachable = machine_.directory.answers;
    const Time began = simulation_.Now();
    closing_ =
        std::make_unique<Fiber>(simulation_.event_queue, [this, held, over, reachable, began] {
          driver_->Close();
          const bool failed = machine_.directory.failed >= began;
          if (held && reachable && !failed && machine_.disturbed() < began) {
            const Claim& claim = simulation_.run_directory->claims().at(*held);
            simulation_.laws.BreakIf(
                !claim.closed || claim.over != over, "who ends leaves claim ", *held,
                claim.closed ? " that is not what has become of its run" : " open");
          }
          InThisLife(0ms, [machine = &machine_] { machine->EndProcess(true); });
        });
  }
  // A claim that was let go of is closed as soon as the directory takes it.
  void ExpectClosed(std::uint64_t number) {
    const Time since = simulation_.Now();
    InThisLife(kClosedWithin, [this, number, since] {
      const auto& claims = simulation_.run_directory->claims();
      if (!claims.contains(number) || claims.at(number).closed || claims.rbegin()->first > number ||
          machine_.directory.failed >= since) {  // It was tried.
        return;
      }
      if (!machine_.directory.answers || machine_.loop().paused() ||
          machine_.disturbed() + kClosedWithin > simulation_.Now()) {
        ExpectClosed(number);
      } else {
        simulation_.laws.Break("claim ", number, " was let go, and stays open");
      }
    });
  }
  void InThisLife(Duration delay, std::function<void()> what) {
    simulation_.event_queue.After(delay, machine_.InThisLife(std::move(what)));
  }

  Simulation& simulation_;
  Machine& machine_;
  FollowingChannel* const channel_;
  std::unique_ptr<Driver> driver_;
  bool ending_ = false;
  bool agent_ended_ = false;
  TakeClaim take_;                  // The last that its core asked for.
  std::unique_ptr<Fiber> closing_;  // While it gives its claim up. Last: it refers to the rest.
};

}  // namespace ddprun::sim
