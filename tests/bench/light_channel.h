// A node's side of the conversation that costs its machine next to nothing, so that ten thousand of
// them leave a machine to the server: TLS by OpenSSL with one context for all, HTTP/2's frames by
// hand.
//
// The server sees what it sees of GrpcChannelTo's channel: a connection of its own, the same
// handshake, a certificate that must prove the token, the token in every call, one call at a time,
// and a fresh connection after each call that had no answer. Only for the bench: who serves is
// trusted to speak well.
#pragma once

#include <memory>

#include "common/asio_loop.h"
#include "common/endpoint.h"
#include "rendezvous/transport.h"

namespace ddprun {

class LightChannel final : public SyncChannel {
 public:
  // Of loopback. An empty token: in the clear.
  LightChannel(AsioLoop& loop, const Endpoint& endpoint, const std::string& token);
  ~LightChannel() override;

  void Send(const NodeReport& report, Duration deadline, Done done) override;
  void Cancel() override;

  // Connections that any of them has begun.
  static std::size_t Dialled();

 private:
  class State;
  std::shared_ptr<State> state_;  // Shared with waits in flight.
};

}  // namespace ddprun
