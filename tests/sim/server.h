// The rendezvous server of a simulated machine: the product's driver of the real coordinator core.
// One that stands may have a claim on a disk that may be slow; where the part moves the product's
// failover driver begins and ends it.
//
// Parks, answers and decides nothing. This header: how calls get to the driver and answers away
// from it, and the conditions around each step of the core and after each iteration of the loop.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/driver.h"
#include "rendezvous/failover/sole_claim.h"
#include "tests/sim/simulation.h"

namespace ddprun::sim {

class Machine;

class Server {
 public:
  // nullopt: refused.
  using Answer = std::function<void(const std::optional<SyncReply>&)>;

  Server(Simulation& simulation, Machine& machine);
  ~Server();
  std::uint32_t host() const;  // The index of its machine.

  // ---- Its process ----
  // The run's one server begins, with what it finds in its state directory.
  void Stand();
  // That is gone when it starts again.
  void LoseState();
  // With the term that its machine's clock gives.
  CoordinatorConfig NewTermConfig(Term clock) {
    CoordinatorConfig term_config = config_;
    term_config.term = clock;
    term_config.proven = !simulation_.setup.unproven;
    term_config.seed = simulation_.random.Next();
    return term_config;
  }
  // A term of its own begins; `takes_over`: after another one's.
  std::unique_ptr<CoordinatorDriver> BeginTerm(const CoordinatorConfig& term_config,
                                               bool takes_over);
  // It has refused what was parked, and forgets everything.
  void SteppedDown() {
    last_ = state();
    driver_ = nullptr;
  }
  // Its process dies: nothing comes from it any more. Before its driver goes.
  void Vanish();
  // Calls find these handlers from now on, or none.
  void Listen(const RendezvousHandlers& handlers) {
    ++life_;
    handlers_ = handlers;
  }
  void StopListening();
  bool listens() const { return handlers_.has_value(); }
  bool up() const { return driver_ != nullptr; }

  // ---- What arrives ----
  // A call, or that its connection has closed. `life` is the server's when it was sent: a
  // connection ends with the process that it led to.
  void OnCall(const NodeReport& report, std::uint64_t life, Answer answer);
  void OnClosed(const NodeKey& key, std::uint64_t sequence, std::uint64_t life);
  std::uint64_t life() const { return life_; }  // Odd while it can be reached.

  // ---- For who looks ----
  // Of the run: an empty one where the server knows none, the last one while it is down.
  const CoordinatorState& state() const {
    static const CoordinatorState none;
    if (!driver_) {
      return last_;
    }
    const CoordinatorState* const run = driver_->StateOf("run");
    return run == nullptr ? none : *run;
  }
  const CoordinatorConfig& config() const { return driver_ ? driver_->config() : config_; }
  // Every node that had to know the run's end does since then; for driver's to forget.
  const std::optional<Time>& over_since() const { return over_since_; }
  // Nodes that it has never heard of may be about to find it.
  bool MayBeLookedFor() const;
  // A node whose directive differs from the one it knows hears it at once: no other event may come.
  void CheckOpenCalls();
  // Which runs have ended, as the claim says with which it serves.
  void NoteClaim(const TakeClaim& take) { knew_run_ = !take.ended.empty(); }

 private:
  class Driver;
  class Call;
  class FarCall;
  class Disk;
  struct Asked {
    NodeKey key;
    std::uint64_t sequence = 0;
    std::optional<Directive> echo;
    bool IsOther(const Directive& directive) const {
      return !echo || !SameDirective(directive, *echo);
    }
  };

  void Arrive(std::uint64_t life, std::function<void()> what, const std::function<void()>& refused);
  // A node that comes later than that begins another run of the same name.
  void NoteForgotten(const NodeReport& report) {
    const bool has_claim = disk_ && MayBeLookedFor();
    const bool knows = driver_->StateOf("run") != nullptr || has_claim;
    if (knew_run_ && !knows && report.term == Term{}) {
      laws_.OnOutcomeForgotten();
    }
    knew_run_ = true;
  }
  template <class... Parts>
  void Tell(const Parts&... parts) {
    simulation_.Tell(name_, parts...);
  }

  // ---- Around a step of the core ----
  void BeforeStep(const CoordinatorState& state, const CoordinatorEvent& event, Time now);
  void AfterStep(const CoordinatorState& state, const CoordinatorEvent& event,
                 const CoordinatorEffects& effects, Time now);
  void CheckClaim() const;
  void CheckHang(const World& world);
  void CheckMembers(const World& world, const std::optional<World>& before) const;
  void CheckRecovered(const CoordinatorState& state) const;
  void OnAnswer(const Asked& asked, const Directive& directive);
  bool IsClosing(const Asked& asked);

  Simulation& simulation_;
  Laws& laws_;
  Machine& machine_;
  const std::string name_;
  CoordinatorConfig config_;                    // Of the next life.
  std::shared_ptr<Disk> disk_;                  // None: no state directory.
  std::unique_ptr<CoordinatorDriver> own_;      // Of one that stands,
  std::unique_ptr<SoleClaim> claim_;            // and its claim.
  CoordinatorDriver* driver_ = nullptr;         // None: it is down.
  std::optional<RendezvousHandlers> handlers_;  // None: no process listens.
  std::map<std::uint64_t, Asked> calls_;        // That are open, in the order of their arrival.
  std::uint64_t last_call_ = 0;
  std::optional<Asked> closing_;  // The call whose end the driver hears just now.
  CoordinatorState last_;         // While it is down.
  std::uint64_t life_ = 0;
  Term highest_term_;        // As a clock that never goes back gives it.
  bool takes_over_ = false;  // It serves after another one,
  Time began_;               // since then.
  bool knew_run_ = false;
  Phase phase_before_ = Phase::kGathering;
  std::uint64_t worlds_before_ = 0;
  std::vector<NodeKey> nodes_before_;  // Where a trace is written: to see which are forgotten.
  std::optional<Time> over_since_;
};

}  // namespace ddprun::sim
