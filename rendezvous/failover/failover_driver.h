// Feeds the failover core with the claims that it reads and the servers' answers, and carries out
// its effects: reads and writes claims on the disk's thread, opens and closes this node's server
// (its name is looked up on a thread that may hang), and switches the server that its agent calls.
//
// No judgement here: core/failover decides which node serves. Lives on the loop.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/lifetime.h"
#include "common/loop.h"
#include "rendezvous/core/failover/failover.h"
#include "rendezvous/core/failover/serving.h"
#include "rendezvous/driver.h"
#include "rendezvous/failover/claims.h"
#include "rendezvous/failover/following_channel.h"
#include "rendezvous/failover/held_claim.h"
#include "rendezvous/serving_network.h"

namespace ddprun {

// The server of a term that begins.
struct NewServer {
  CoordinatorDriver& coordinator;
  const Endpoint& endpoint;
  const std::string& token;  // Of its operators.
};

struct FailoverOptions {
  // The core's configuration; its leases decide when a dead leader is replaced.
  FailoverConfig core;
  // Where claims are read and written: nodes with different places form two runs.
  std::shared_ptr<Claims> claims;
  // Opens servers and channels; never null.
  std::shared_ptr<ServingNetwork> network;
  // Where this node may serve: the first place that can be bound; empty: it never becomes the
  // leader.
  std::vector<Endpoint> places;
  // Published for operators, with the endpoint: a wrong token refuses their requests.
  std::string operators_token;
  // Tells the agent's guard what it must know from now on; must not wait, as it runs on the loop.
  // Unset: no guard closes a dead agent's claim.
  std::function<void(const std::optional<HeldClaim>&)> tell_guard;
  // Makes the configuration of a term that begins; never unset.
  std::function<CoordinatorConfig()> new_term_config;
  // Called when this node's server begins a term; unset: no caller wants to know.
  std::function<void(const NewServer&)> on_serving;
  // Called when this node's server has ended its term; unset: no caller wants to know.
  std::function<void()> on_stepped_down;
};

class FailoverDriver {
 public:
  // `channel`: of this node's agent; must outlive this. nullptr: a server without an agent.
  FailoverDriver(Loop& loop, FailoverOptions options, FollowingChannel* channel);
  virtual ~FailoverDriver();
  FailoverDriver(const FailoverDriver&) = delete;
  FailoverDriver& operator=(const FailoverDriver&) = delete;

  // For a server that the owner of this has bound itself.
  RendezvousHandlers Handlers();
  // That server is bound at `endpoint`, so this node may make the first claim. Before Start.
  void UseServer(std::unique_ptr<ListeningServer> server, const Endpoint& endpoint);

  void Start();

  // None: another node serves.
  CoordinatorDriver* coordinator() const { return coordinator_.get(); }
  // Of this node's server; port 0: nothing is open here.
  Endpoint served_at() const { return server_ ? endpoint_ : Endpoint{}; }
  // Where the run's server is, as far as this node knows; port 0: unknown.
  Endpoint server_at() const {
    return coordinator_ ? served_at() : state_.following.value_or(Endpoint{});
  }
  // For tests and simulations.
  const FailoverState& state() const { return state_; }

  // Gives the claim up, so that no node must wait until it is stale. Blocks for one write. Call it
  // once the loop has ended, or right before.
  void Close();

 protected:
  // The core's Step, and the only one: a simulation looks at the state before it and after it.
  virtual std::vector<FailoverEffect> TakeStep(FailoverState& state, const FailoverConfig& config,
                                               const FailoverEvent& event, Time now);
  virtual std::unique_ptr<CoordinatorDriver> NewCoordinator(Loop& loop,
                                                            const CoordinatorConfig& term_config);

 private:
  void Feed(const FailoverEvent& event);
  void CarryOut(const FailoverEffect& effect);
  void Read();
  void Take(const TakeClaim& take);
  void OpenServer(const TakeClaim& take, std::size_t index, std::string refused);
  void MakeClaim(const TakeClaim& take);
  void BeginTerm(const CoordinatorConfig& term_config, const TakeClaim& take, const Claim& claim);
  void NoteRun(const CoordinatorState& run);
  void Hold(const std::optional<HeldClaim>& held);
  void Move(const Claim& claim);
  void GoTo(const Endpoint& endpoint);
  void LetGo(const StepDown& down);
  void GiveUp();
  Result<void> Open(const ListenPlace& place);
  Duration Lease() const;

  Loop& loop_;
  FailoverOptions options_;
  const std::shared_ptr<Claims> claims_;
  FollowingChannel* channel_;
  FailoverState state_;
  LoopTimer timer_;
  std::unique_ptr<CoordinatorDriver> coordinator_;
  std::vector<std::unique_ptr<CoordinatorDriver>> retired_;  // Work that they posted may still run.
  std::unique_ptr<ListeningServer> server_;                  // Destroyed before coordinator_.
  Endpoint endpoint_;                                        // Of server_.
  RunId run_;                                                // Of the agent.
  NodeKey agent_;                                            // Its membership.
  std::uint64_t claim_ = 0;                                  // The number of this term's claim.
  std::optional<HeldClaim> held_;                            // As the guard knows it.
  const Lifetime life_;
};

}  // namespace ddprun
