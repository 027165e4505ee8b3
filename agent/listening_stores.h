// The real stores of this node, and clients of a shared port that came before their generation did.
//
// A store exists from its generation's beginning on; an earlier client waits in the backlog. Never
// serves a client on the agent's loop (store_thread.h).
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "agent/node_stores.h"
#include "common/endpoint.h"
#include "common/files.h"
#include "rendezvous/store/store_thread.h"

namespace ddprun {

struct StorePlace {
  std::string address;  // Where this node's stores listen, and are found.
  StoreOptions options;
  // Set: the stores do not listen, they are found here, and OnClient brings their clients.
  std::optional<Endpoint> literal;
};

class ListeningStores final : public NodeStores {
 public:
  explicit ListeningStores(StorePlace place) : place_(std::move(place)) {}

  Result<void> Bind() override;
  Endpoint Offer() override;
  void Begin(const std::string& peers) override;
  void End() override { store_.reset(); }

  // A connection to the literal store, from the process that listens there.
  void OnClient(UniqueFd socket);

 private:
  void AdoptWaiting();

  const StorePlace place_;
  std::optional<StoreThread> thread_;   // From the first generation that this node leads.
  std::optional<UniqueFd> listener_;    // For a generation yet to come; an empty one if literal.
  std::unique_ptr<HostedStore> store_;  // Of the generation that this node leads.
  Endpoint offered_;
  std::deque<UniqueFd> waiting_;  // Of the literal store, for a generation yet to come.
};

}  // namespace ddprun
