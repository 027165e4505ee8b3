// Whether this node hosts the rendezvous server, and the way its agent speaks to it.
//
// Fixed ranks: node rank 0 alone tries. Elastic: the node that holds the endpoint's address and
// binds first; a port in use is joined if a ddprun rendezvous answers there. Standalone: no socket,
// but for the workers' store where its port was given. With a shared directory: the node that has
// the newest claim in it, which changes while the run continues.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>

#include "common/asio_loop.h"
#include "launcher/command_line/config.h"
#include "launcher/server/server_files.h"
#include "rendezvous/control_socket.h"
#include "rendezvous/driver.h"
#include "rendezvous/failover/failover_driver.h"
#include "rendezvous/failover/grpc_network.h"
#include "rendezvous/listener/acceptor.h"
#include "rendezvous/server.h"
#include "rendezvous/transport.h"

namespace ddprun {

// Called when this node begins, or ceases, to host the rendezvous of a run with a shared directory.
struct ServerNews {
  std::function<void(UniqueFd, std::string)> page;  // Takes what a browser asks the server's port.
  std::function<void(const std::optional<HeldClaim>&)> tell_guard;
  std::function<void(const NewServer&)> on_serving;
  std::function<void()> on_stepped_down;
};

struct ServerRole {
  std::unique_ptr<FailoverDriver> failover;        // With a shared directory: instead of the next.
  std::unique_ptr<CoordinatorDriver> coordinator;  // None: another node hosts the server.
  std::unique_ptr<RendezvousServer> server;        // None: no other node can come.
  std::unique_ptr<SyncChannel> channel;            // Of this node's agent.
  std::string where;                               // For people.
  Endpoint bound;  // Without `failover`: where this node serves; port 0: another node serves.
  Endpoint known;  // Without `failover`: where the run's server is; port 0: unknown yet.
  std::string operators_token;  // Of this run's servers, as far as it is known here.
  // The workers' store is at one literal endpoint: its port, and where only this node needs it, the
  // socket that listens there.
  std::uint16_t store_port = 0;  // 0: no literal store is on this node.
  UniqueFd store_socket;
  std::unique_ptr<Acceptor> store_acceptor;
  std::unique_ptr<ControlSocket> control_socket;

  // The coordinator that serves other nodes now; none: there is none here.
  CoordinatorDriver* Serving() const {
    return failover ? failover->coordinator() : server ? coordinator.get() : nullptr;
  }
  // Where this node answers as a server; port 0: nowhere.
  Endpoint ServedAt() const { return failover ? failover->served_at() : bound; }
  // Where the run's server is, as far as this node knows; port 0: it does not.
  Endpoint ServerAt() const { return failover ? failover->server_at() : known; }
  // Where no other node can come: this machine's operators can, from now on. None: they cannot, and
  // the run continues without.
  std::optional<ServerFiles> OpenControlSocket(AsioLoop& loop,
                                               const std::filesystem::path& run_directory,
                                               const RunId& run_id);

  // The loop has ended.
  void Close();

  // From now on `adopt` gets all connections to the literal store.
  void OnStoreClients(AsioLoop& loop, std::function<void(UniqueFd)> adopt);
};

// `news` is for a run with a shared directory, whose failover is yet to be started.
Result<ServerRole> TakeServerRole(AsioLoop& loop, const LaunchConfig& config, ServerNews news);

// Warns once that any peer can join, if peers of other users could come. `why_no_token`: where one
// was looked for.
void WarnIfOpen(const Endpoint& endpoint, const Access& access, bool insecure,
                const std::string& why_no_token = "");

// The token that drain and stop need: the one that every caller shows; else one that the servers of
// a run directory share, or that is drawn for this one alone.
Result<std::string> OperatorsToken(const Access& access, const std::string& run_dir);

// A new term: larger than every earlier one on a machine whose clock goes forward. A name and an
// order, never a time-out.
CoordinatorConfig NewTermConfig();

}  // namespace ddprun
