// A rendezvous server on one port: gRPC for agents, HTTP for probes, and a store's clients where
// the store shares the port. Delivers calls to the handlers on the loop; decides nothing.
//
// No gRPC thread and no socket exists before Listen, so an agent that serves only itself pays for
// neither. The loop must outlive the server.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "common/asio_loop.h"
#include "common/endpoint.h"
#include "common/files.h"
#include "common/result.h"
#include "rendezvous/listener/acceptor.h"
#include "rendezvous/listener/listen_socket.h"
#include "rendezvous/listener/tls.h"
#include "rendezvous/serving_network.h"
#include "rendezvous/transport.h"

namespace ddprun {

class RendezvousServer final : public ListeningServer {
 public:
  RendezvousServer(AsioLoop& loop, RendezvousHandlers handlers, AcceptorOptions options);
  ~RendezvousServer() override;
  RendezvousServer(const RendezvousServer&) = delete;
  RendezvousServer& operator=(const RendezvousServer&) = delete;

  // Sets the handler of connections of c10d store clients; none: they are closed.
  void SetStore(std::function<void(UniqueFd)> store);

  // Sets the handler of browsers' connections, with the bytes read so far; none: the answer names
  // /healthz.
  void SetPage(std::function<void(UniqueFd, std::string)> page) { page_ = std::move(page); }

  // Before Listen: every call must show the token, and speak TLS where there is one or the other.
  // Without a certificate of the user's the server draws one that proves the token. Store clients
  // have no way to.
  void Require(Access access) { access_ = std::move(access); }

  // Before Listen, where no token is required: a caller that has this one may have it proven, and
  // call over TLS.
  void Prove(std::string token) { proven_ = std::move(token); }

  // Binds exactly the host named and serves. The endpoint as asked for, with the port bound. May
  // block while a name is looked up. A refused Listen may be tried again. kUnavailable: the port is
  // in use, and the message says by whom; kNotFound: the host is not this machine.
  Result<Endpoint> Listen(const Endpoint& endpoint);
  // The same where the name was looked up already.
  Result<Endpoint> ListenAt(const ListenPlace& place) override;

  // On the loop, or once it has ended. Refuses parked calls, closes every connection, joins; takes
  // at most a fraction of a second. No handler is called afterwards. Nothing happens when not
  // listening.
  void Shutdown() override;

 private:
  struct Serving;
  AsioLoop& loop_;
  RendezvousHandlers handlers_;
  AcceptorOptions options_;
  Access access_;
  std::string proven_;
  std::function<void(UniqueFd)> store_;
  std::function<void(UniqueFd, std::string)> page_;
  std::unique_ptr<Serving> serving_;
};

}  // namespace ddprun
