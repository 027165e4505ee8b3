#include "rendezvous/server.h"

#include <grpcpp/resource_quota.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_certificate_verifier.h>
#include <grpcpp/security/tls_credentials_options.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <string>
#include <utility>
#include <vector>

#include "common/check.h"
#include "rendezvous/grpc_limits.h"
#include "rendezvous/grpc_proof.h"
#include "rendezvous/listener/connection_watch.h"
#include "rendezvous/listener/listen_socket.h"
#include "rendezvous/listener/rejected.h"
#include "rendezvous/listener/token_proof.h"
#include "rendezvous/service.h"

namespace ddprun {
namespace {

using HandOver = grpc::experimental::ExternalConnectionAcceptor;

constexpr std::size_t kMemoryBytes = std::size_t{1} << 30;  // 10,000 agents take a third of it.
// As for a first call: ten thousand handshakes at once take two busy cores longer than 10 s.
constexpr int kHandshakeMs = 30'000;
// Connections without a call, or so many as take half of all descriptors: each takes two, and 96
// KiB. As many nodes as there may be can come at once.
constexpr std::size_t kMostUnauthenticated = 10'000;
constexpr int kStreamsPerConnection = 16;  // An agent has a call and a stream.

// The bytes that may wait to be read; more than a message needs, and little enough that a peer's
// flood is seen before it is read.
constexpr int kReceiveBuffer = 64 * 1024;

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
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kHandshakeMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, INT_MAX);
  // Features that cost each call or connection something and are not used. A call's own deadline is
  // kept by the agent, which cancels the call: ten thousand parked calls need no timers here.
  builder.AddChannelArgument(GRPC_ARG_ENABLE_DEADLINE_CHECKS, 0);
  builder.AddChannelArgument(GRPC_ARG_ENABLE_PER_MESSAGE_COMPRESSION, 0);
  builder.AddChannelArgument(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
  builder.AddChannelArgument(GRPC_ARG_ENABLE_CENSUS, 0);
  builder.AddChannelArgument(GRPC_ARG_ENABLE_CHANNELZ, 0);
  builder.AddChannelArgument(GRPC_ARG_MAX_CHANNEL_TRACE_EVENT_MEMORY_PER_NODE, 0);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                             kLeastPingIntervalMs);
}

std::function<void(UniqueFd)> HandTo(HandOver& hand_over, int listener,
                                     std::function<bool(int)> follow) {
  return [&hand_over, listener, follow = std::move(follow)](UniqueFd fd) {
    HandOver::NewConnectionParameters connection;
    TidyUpWhenItsHostIsGone(fd.get());
    ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVBUF, &kReceiveBuffer, sizeof kReceiveBuffer);
    if (!follow(fd.get())) {
      return;
    }
    connection.listener_fd = listener;
    connection.fd = fd.Release();
    hand_over.HandleNewConnection(&connection);
  };
}

// With an authority, a caller must show a certificate that it signed.
std::shared_ptr<grpc::ServerCredentials> UsersCredentials(const Tls& tls) {
  grpc::SslServerCredentialsOptions options(
      tls.authority.empty() ? GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE
                            : GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  options.pem_root_certs = tls.authority;
  options.pem_key_cert_pairs.push_back({tls.key, tls.certificate});
  return grpc::SslServerCredentials(options);
}

// A caller proves the token as this server does, in the handshake, so that nothing that another
// peer says reaches HTTP/2. An operators' server accepts every caller.
std::shared_ptr<grpc::ServerCredentials> ProvenCredentials(const Tls& drawn,
                                                           const std::string& token) {
  namespace experimental = grpc::experimental;
  experimental::TlsServerCredentialsOptions options(
      std::make_shared<experimental::StaticDataCertificateProvider>(
          std::vector<experimental::IdentityKeyCertPair>{{drawn.key, drawn.certificate}}));
  options.watch_identity_key_cert_pairs();
  options.set_cert_request_type(
      token.empty() ? GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE
                    : GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_BUT_DONT_VERIFY);
  if (!token.empty()) {
    options.set_certificate_verifier(VerifierOf(token));
  }
  return experimental::TlsServerCredentials(options);
}

// The user's, or one that proves the token; none without either.
Result<Tls> CertificateOf(const Access& access, const std::string& token) {
  if (access.tls.serves() || token.empty()) {
    return access.tls;
  }
  return DrawCertificate(token);
}

}  // namespace

struct RendezvousServer::Serving {
  Serving(AsioLoop& loop, RendezvousHandlers handlers, const Access& access, Duration call_patience)
      : service(loop, std::move(handlers), access.token, access.tls.serves()),
        watch(
            loop, [this](const std::string& peer) { service.OnClosed(peer); },
            [this](const std::string& peer, const std::string& why) { rejected.Note(peer, why); },
            std::min(kMostUnauthenticated, OneDescriptorIn(4)), call_patience),
        rejected(loop, "rendezvous") {
    service.OnAuthenticated([this](const std::string& peer) { watch.MarkAuthenticated(peer); });
  }

  // False: it escapes every limit, so it is not served.
  bool Follow(int fd) {
    const std::string peer = watch.Watch(fd);
    if (peer.empty()) {
      rejected.Note("an unknown peer",
                    "it has disconnected, or too many connections have made no call yet, or nearly "
                    "all descriptors (ulimit -n) are in use [descriptor-limit]");
      return false;
    }
    service.OnOpened(peer);
    return true;
  }

  RendezvousService service;
  ConnectionWatch watch;
  RejectedConnections rejected;
  std::unique_ptr<HandOver> hand_over;      // None: calls in the clear are refused.
  std::unique_ptr<HandOver> hand_over_tls;  // None: TLS is not spoken here.
  std::unique_ptr<grpc::Server> server;
  std::unique_ptr<Acceptor> acceptor;
};

RendezvousServer::RendezvousServer(AsioLoop& loop, RendezvousHandlers handlers,
                                   AcceptorOptions options)
    : loop_(loop), handlers_(std::move(handlers)), options_(std::move(options)) {}

RendezvousServer::~RendezvousServer() {
  Shutdown();
}

void RendezvousServer::SetStore(std::function<void(UniqueFd)> store) {
  store_ = std::move(store);
}

Result<Endpoint> RendezvousServer::Listen(const Endpoint& endpoint) {
  ASSIGN_OR_RETURN(const ListenPlace place, LookUpToListen(endpoint));
  return ListenAt(place);
}

Result<Endpoint> RendezvousServer::ListenAt(const ListenPlace& place) {
  CHECK(serving_ == nullptr);
  ASSIGN_OR_RETURN(ListenSocket socket, ddprun::ListenAt(place));
  PrepareGrpc();
  ASSIGN_OR_RETURN(const Tls tls,
                   CertificateOf(access_, access_.token.empty() ? proven_ : access_.token));
  auto serving = std::make_unique<Serving>(loop_, handlers_, access_, options_.call_patience);
  grpc::ServerBuilder builder;
  SetLimits(builder);
  builder.RegisterService(&serving->service);
  const auto listen_with = [&builder](std::shared_ptr<grpc::ServerCredentials> credentials) {
    return builder.experimental().AddExternalConnectionAcceptor(
        grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
        std::move(credentials));
  };
  const std::string refusal = serving->service.admission().RefusalInTheClear();
  if (refusal.empty()) {
    serving->hand_over = listen_with(grpc::InsecureServerCredentials());
  }
  if (tls.serves()) {
    serving->hand_over_tls = listen_with(
        access_.tls.serves() ? UsersCredentials(tls) : ProvenCredentials(tls, access_.token));
  }
  serving->server = builder.BuildAndStart();
  if (serving->server == nullptr) {
    return Error{ErrorKind::kSystem, "cannot serve on " + ToString(place.endpoint) +
                                         ": the gRPC library refused to start a server"};
  }
  const int listener = socket.fd.get();
  AcceptorHandlers handlers;
  const auto follow = [serving = serving.get()](int fd) { return serving->Follow(fd); };
  if (serving->hand_over) {
    handlers.grpc = HandTo(*serving->hand_over, listener, follow);
  }
  handlers.refused = [serving = serving.get()](const std::string& address) {
    serving->service.admission().NoteInTheClear(address);
  };
  if (serving->hand_over_tls) {
    handlers.tls = HandTo(*serving->hand_over_tls, listener, follow);
  }
  handlers.store = [this](UniqueFd fd) {
    if (store_) {
      store_(std::move(fd));
    }
  };
  handlers.http = page_;
  AcceptorOptions options = options_;
  options.refusal = refusal;
  options.health.wants_token = !access_.token.empty();
  serving->acceptor = std::make_unique<Acceptor>(loop_, std::move(options), std::move(handlers));
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
