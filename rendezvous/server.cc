#include "rendezvous/server.h"

#include <grpcpp/resource_quota.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <chrono>
#include <climits>
#include <utility>

#include "common/check.h"
#include "rendezvous/grpc_limits.h"
#include "rendezvous/listen_socket.h"
#include "rendezvous/service.h"

namespace ddprun {
namespace {

using HandOver = grpc::experimental::ExternalConnectionAcceptor;

// So that answers already given leave before their connections close.
constexpr std::chrono::milliseconds kShutdownGrace{200};
constexpr std::size_t kMemoryBytes = std::size_t{1} << 30;  // 10,000 agents take a third of it.
constexpr int kStreamsPerConnection = 16;                   // An agent has one call, or two.

// Closes the connection of a host that vanished, some two minutes later: the kernel asks it.
void TidyUpWhenItsHostIsGone(int fd) {
  const auto set = [fd](int level, int option, int value) {
    ::setsockopt(fd, level, option, &value, sizeof value);
  };
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 60);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 20);
  set(IPPROTO_TCP, TCP_KEEPCNT, 3);
}

void SetLimits(grpc::ServerBuilder& builder) {
  grpc::ResourceQuota quota("rendezvous");
  quota.Resize(kMemoryBytes);
  builder.SetResourceQuota(quota);
  // Not the minimal stack: it would drop the filter that bounds messages.
  builder.SetMaxReceiveMessageSize(kMaxMessageBytes);
  builder.SetMaxSendMessageSize(kMaxMessageBytes);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kStreamsPerConnection);
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, 10'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, INT_MAX);
  // What costs each call or connection something and is not used. A call's own deadline is kept by
  // the agent, which cancels the call: ten thousand parked calls need no timers here.
  builder.AddChannelArgument(GRPC_ARG_ENABLE_DEADLINE_CHECKS, 0);
  builder.AddChannelArgument(GRPC_ARG_ENABLE_PER_MESSAGE_COMPRESSION, 0);
  builder.AddChannelArgument(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
  builder.AddChannelArgument(GRPC_ARG_ENABLE_CENSUS, 0);
  builder.AddChannelArgument(GRPC_ARG_ENABLE_CHANNELZ, 0);
  builder.AddChannelArgument(GRPC_ARG_MAX_CHANNEL_TRACE_EVENT_MEMORY_PER_NODE, 0);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                             kLeastPingIntervalMs);
}

}  // namespace

struct RendezvousServer::Serving {
  Serving(Loop& loop, RendezvousHandlers handlers, const std::string& token)
      : service(loop, std::move(handlers), token) {}

  RendezvousService service;
  std::unique_ptr<HandOver> hand_over;
  std::unique_ptr<grpc::Server> server;
  std::unique_ptr<Acceptor> acceptor;
};

RendezvousServer::RendezvousServer(Loop& loop, RendezvousHandlers handlers, AcceptorOptions options)
    : loop_(loop), handlers_(std::move(handlers)), options_(options) {}

RendezvousServer::~RendezvousServer() {
  Shutdown();
}

void RendezvousServer::SetStore(std::function<void(UniqueFd)> store) {
  store_ = std::move(store);
}

Result<Endpoint> RendezvousServer::Listen(const Endpoint& endpoint) {
  CHECK(serving_ == nullptr);
  ASSIGN_OR_RETURN(ListenSocket socket, ListenOn(endpoint));
  PrepareGrpc();
  auto serving = std::make_unique<Serving>(loop_, handlers_, token_);
  grpc::ServerBuilder builder;
  SetLimits(builder);
  builder.RegisterService(&serving->service);
  serving->hand_over = builder.experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
      grpc::InsecureServerCredentials());
  serving->server = builder.BuildAndStart();
  if (serving->server == nullptr) {
    return Error{ErrorKind::kSystem, "cannot serve on " + ToString(endpoint) +
                                         ": the gRPC library refused to start a server"};
  }
  const int listener = socket.fd.get();
  AcceptorHandlers handlers;
  handlers.grpc = [hand_over = serving->hand_over.get(), listener](UniqueFd fd) {
    HandOver::NewConnectionParameters connection;
    TidyUpWhenItsHostIsGone(fd.get());
    connection.listener_fd = listener;
    connection.fd = fd.Release();
    hand_over->HandleNewConnection(&connection);
  };
  handlers.store = [this](UniqueFd fd) {
    if (store_) {
      store_(std::move(fd));
    }
  };
  serving->acceptor = std::make_unique<Acceptor>(loop_, options_, std::move(handlers));
  serving->acceptor->Start(std::move(socket.fd));
  serving_ = std::move(serving);
  return socket.endpoint;
}

void RendezvousServer::Shutdown() {
  if (serving_ == nullptr) {
    return;
  }
  serving_->acceptor.reset();
  serving_->service.Close();
  serving_->server->Shutdown(std::chrono::system_clock::now() + kShutdownGrace);
  serving_.reset();
}

}  // namespace ddprun
