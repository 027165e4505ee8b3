#include "rendezvous/failover/grpc_network.h"

#include <utility>

#include "rendezvous/client.h"

namespace ddprun {

GrpcNetwork::GrpcNetwork(AsioLoop& loop, Access access, std::string operators_token)
    : loop_(loop), access_(std::move(access)), operators_token_(std::move(operators_token)) {}

std::unique_ptr<RendezvousServer> GrpcNetwork::NewRendezvous(RendezvousHandlers handlers) {
  auto server = std::make_unique<RendezvousServer>(loop_, std::move(handlers), AcceptorOptions{});
  server->Require(access_);
  server->Prove(operators_token_);
  server->SetPage(page_);
  return server;
}

std::unique_ptr<ListeningServer> GrpcNetwork::NewServer(RendezvousHandlers handlers) {
  return NewRendezvous(std::move(handlers));
}

Result<ListenPlace> GrpcNetwork::LookUp(const Endpoint& endpoint) const {
  return LookUpToListen(endpoint);
}

std::unique_ptr<SyncChannel> GrpcNetwork::ChannelTo(const Endpoint& endpoint) {
  return GrpcChannelTo(loop_, endpoint, access_);
}

}  // namespace ddprun
