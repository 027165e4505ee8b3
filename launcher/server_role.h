// Whether this node carries the rendezvous server, and the way its agent speaks to it.
//
// Fixed ranks: node rank 0 alone tries. Elastic: whoever holds the endpoint's address and binds
// first; a port in use is joined if a ddprun rendezvous answers there. Standalone: no socket, but
// for the workers' store where its port was given.
#pragma once

#include <functional>
#include <memory>

#include "launcher/config.h"
#include "rendezvous/acceptor.h"
#include "rendezvous/driver.h"
#include "rendezvous/server.h"
#include "rendezvous/transport.h"

namespace ddprun {

struct ServerRole {
  std::unique_ptr<CoordinatorDriver> coordinator;  // None: another node carries the server.
  std::unique_ptr<RendezvousServer> server;        // None: nobody else can come.
  std::unique_ptr<SyncChannel> channel;            // Of this node's agent.
  std::string where;                               // For people.
  // The workers' store is at one literal endpoint: its port, and where only this node needs it, the
  // socket that listens there.
  std::uint16_t store_port = 0;  // 0: no literal store is on this node.
  UniqueFd store_socket;
  std::unique_ptr<Acceptor> store_door;

  // From now on, whoever connects to the literal store.
  void OnStoreClients(Loop& loop, std::function<void(UniqueFd)> adopt);
};

Result<ServerRole> TakeServerRole(Loop& loop, const LaunchConfig& config);

// A new reign: larger than every earlier one on a machine whose clock goes forward. A name and an
// order, never a time-out.
// Each node is an open connection; the soft limit is often 1,024. Workers get the
// user's own (UserLimits).
void RaiseFileLimit();

// Says once that nothing keeps strangers out, where strangers could come.
void WarnIfOpen(const Endpoint& endpoint, const std::string& proof);

CoordinatorConfig NewReign(const LaunchConfig& config);

// This machine's address as the other nodes reach it: the source address of a packet to the
// endpoint. Loopback where nobody else can come.
Result<std::string> FindLocalAddress(const LaunchConfig& config);

}  // namespace ddprun
