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

  // Call it before Listen. With a token every call must prove it; with a token or a certificate
  // every call must use TLS. Without a certificate of the user the server makes one that proves the
  // token. Store clients need neither.
  void Require(Access access) { access_ = std::move(access); }

  // Call it before Listen, where no token is required: a caller that has this token may use TLS,
  // and check that the server has it too.
  void Prove(std::string token) { proven_ = std::move(token); }

  // Binds exactly the named host and serves. Returns that endpoint with the port that was bound.
  // May block while a name is looked up. A refused Listen may be tried again. kUnavailable: the
  // port is in use, and the message names its user; kNotFound: the host is not this machine.
  Result<Endpoint> Listen(const Endpoint& endpoint);
  // The same, after the name was looked up.
  Result<Endpoint> ListenAt(const ListenPlace& place) override;

  // Call it on the loop, or once that has ended. Refuses parked calls, closes every connection and
  // joins gRPC's threads, in a fraction of a second. No handler is called afterwards. Without
  // Listen it does nothing.
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
