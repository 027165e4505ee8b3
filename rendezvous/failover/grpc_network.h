// The servers of a run whose server may move, and the ways to them, over gRPC: all with one access.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "common/asio_loop.h"
#include "rendezvous/listener/tls.h"
#include "rendezvous/server.h"
#include "rendezvous/serving_network.h"

namespace ddprun {

class GrpcNetwork final : public ServingNetwork {
 public:
  // `access`: every node shows it, and asks it of the others. `operators_token`: the same as
  // access's, where that has one.
  GrpcNetwork(AsioLoop& loop, Access access, std::string operators_token);

  // Sets the handler of browsers' connections to the servers made from now on.
  void UsePage(std::function<void(UniqueFd, std::string)> page) { page_ = std::move(page); }

  // For a caller that binds it.
  std::unique_ptr<RendezvousServer> NewRendezvous(RendezvousHandlers handlers);

  std::unique_ptr<ListeningServer> NewServer(RendezvousHandlers handlers) override;
  Result<ListenPlace> LookUp(const Endpoint& endpoint) const override;
  std::unique_ptr<SyncChannel> ChannelTo(const Endpoint& endpoint) override;

 private:
  AsioLoop& loop_;
  const Access access_;
  const std::string operators_token_;
  std::function<void(UniqueFd, std::string)> page_;
};

}  // namespace ddprun
