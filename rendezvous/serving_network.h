// The network that the failover driver needs: a server of its own that other nodes reach, and the
// way to theirs. Behind it is gRPC (grpc_network.h), or a simulated network.
#pragma once

#include <memory>

#include "common/endpoint.h"
#include "common/result.h"
#include "rendezvous/listener/listen_socket.h"
#include "rendezvous/transport.h"

namespace ddprun {

// Hands what arrives to its handlers, on the loop. Its end is a Shutdown.
class ListeningServer {
 public:
  virtual ~ListeningServer() = default;
  // The endpoint as asked for, with the port bound. Never blocks. A refused one may be tried again.
  virtual Result<Endpoint> ListenAt(const ListenPlace& place) = 0;
  // On the loop, or once it has ended. No handler is called afterwards.
  virtual void Shutdown() = 0;
};

class ServingNetwork {
 public:
  virtual ~ServingNetwork() = default;
  virtual std::unique_ptr<ListeningServer> NewServer(RendezvousHandlers handlers) = 0;
  // Any thread. Blocks while a name is looked up, perhaps for ever.
  virtual Result<ListenPlace> LookUp(const Endpoint& endpoint) const = 0;
  // The agent's, to another node's server.
  virtual std::unique_ptr<SyncChannel> ChannelTo(const Endpoint& endpoint) = 0;
};

}  // namespace ddprun
