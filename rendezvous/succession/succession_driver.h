// Feeds the succession core with what is read about claims and heard from servers, and carries out
// its effects: reading and writing claims on the disk's thread, opening and closing this node's
// server (its name is looked up on a thread that may hang), changing whom its agent speaks to.
//
// No judgement here: who serves is core/succession's. Lives on the loop.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/loop.h"
#include "rendezvous/core/succession/serving.h"
#include "rendezvous/core/succession/succession.h"
#include "rendezvous/driver.h"
#include "rendezvous/serving_network.h"
#include "rendezvous/succession/claims.h"
#include "rendezvous/succession/following_channel.h"
#include "rendezvous/succession/held_claim.h"

namespace ddprun {

// What a reign begins with.
struct NewServer {
  CoordinatorDriver& coordinator;
  const Endpoint& endpoint;
  const std::string& token;  // Of its operators.
};

struct SuccessionOptions {
  SuccessionConfig core;
  std::shared_ptr<Claims> claims;
  std::shared_ptr<ServingNetwork> network;
  std::vector<Endpoint> places;  // Where this node would serve: the first that can be bound.
  std::string operators_token;   // Told to operators with the endpoint.
  // What the agent's guard is to know from now on; must not wait. None: it could not be told.
  std::function<void(const std::optional<HeldClaim>&)> tell_guard;
  std::function<CoordinatorConfig()> new_reign;
  std::function<void(const NewServer&)> on_serving;
  std::function<void()> on_stepped_down;
};

class SuccessionDriver {
 public:
  // `channel`: of this node's agent, and must outlive this; none: a server alone.
  SuccessionDriver(Loop& loop, SuccessionOptions options, FollowingChannel* channel);
  virtual ~SuccessionDriver();
  SuccessionDriver(const SuccessionDriver&) = delete;
  SuccessionDriver& operator=(const SuccessionDriver&) = delete;

  // Of a server that whoever has this binds himself.
  RendezvousHandlers Handlers();
  // It is bound to the endpoint given, where `endpoint` says: this node may begin. Before Start.
  void UseServer(std::unique_ptr<ListeningServer> server, const Endpoint& endpoint);

  void Start();

  // None: another node serves.
  CoordinatorDriver* coordinator() const { return coordinator_.get(); }
  // Of this node's server; port 0: nothing is open here.
  Endpoint door() const { return server_ ? endpoint_ : Endpoint{}; }
  // Where the run's server is, as far as this one knows; port 0: it does not.
  Endpoint server_at() const {
    return coordinator_ ? door() : state_.following.value_or(Endpoint{});
  }
  // For who looks at every step.
  const SuccessionState& state() const { return state_; }

  // Gives the claim up, so that nobody waits for it to go stale. Blocks for one write. Once the
  // loop has ended, or right before.
  void Close();

 protected:
  // The core's Step, and the only one: a simulation looks at the state before it and after it.
  virtual std::vector<SuccessionEffect> TakeStep(SuccessionState& state,
                                                 const SuccessionConfig& config,
                                                 const SuccessionEvent& event, Time now);
  virtual std::unique_ptr<CoordinatorDriver> NewCoordinator(Loop& loop,
                                                            const CoordinatorConfig& reign);

 private:
  void Feed(const SuccessionEvent& event);
  void CarryOut(const SuccessionEffect& effect);
  void Read();
  void Take(const TakeClaim& take);
  void OpenServer(const TakeClaim& take, std::size_t index, std::string refused);
  void MakeClaim(const TakeClaim& take);
  void Reign(const CoordinatorConfig& reign, const TakeClaim& take, const Claim& claim);
  void NoteRecord(const RunRecord& record);
  void Hold(const std::optional<HeldClaim>& held);
  void Move(const Claim& claim);
  void GoTo(const Endpoint& endpoint);
  void LetGo(const StepDown& down);
  void GiveUp();
  Result<void> Open(const ListenPlace& place);
  Duration Lease() const;

  Loop& loop_;
  SuccessionOptions options_;
  const std::shared_ptr<Claims> claims_;
  FollowingChannel* channel_;
  SuccessionState state_;
  LoopTimer timer_;
  std::unique_ptr<CoordinatorDriver> coordinator_;
  std::vector<std::unique_ptr<CoordinatorDriver>> retired_;  // What they posted may still come.
  std::unique_ptr<ListeningServer> server_;                  // Before coordinator_'s end.
  Endpoint endpoint_;                                        // Of server_.
  RunId run_;                                                // The agent's,
  NodeKey agent_;                                            // and its membership.
  std::uint64_t claim_ = 0;                                  // The number of the reign's.
  std::optional<HeldClaim> held_;                            // As the guard knows it.
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace ddprun
