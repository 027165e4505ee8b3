// The stores of this node, one generation after the other: where the next one will be found, the
// one that runs, and clients of a shared port who came before their generation did.
//
// A store exists from its generation's beginning on; who comes before waits in the backlog. Never
// serves anybody on the agent's loop (store_thread.h).
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>

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

class NodeStores {
 public:
  explicit NodeStores(StorePlace place) : place_(std::move(place)) {}

  // Binds the next generation's port unless one is bound already.
  Result<void> Bind();
  // The endpoint to tell others. Port 0 where none could be bound, which is said.
  Endpoint Offer();

  // The generation begins whose store was offered, if one could be. `peers`: the addresses of its
  // nodes, who are let in beside whom the options name; empty: not known.
  void Begin(const std::string& peers);
  void End() { store_.reset(); }

  // A connection to the literal store, from whoever listens there.
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
