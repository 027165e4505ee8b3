#include "launcher/server_role.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <optional>
#include <random>
#include <thread>

#include "common/files.h"
#include "common/log.h"
#include "launcher/server_files.h"
#include "rendezvous/client.h"
#include "rendezvous/hello.h"
#include "rendezvous/listen_socket.h"
#include "rendezvous/local_channel.h"

namespace ddprun {
namespace {

constexpr Duration kHelloTimeout{3'000};
constexpr Duration kSilentPort{1'000};
constexpr Duration kLookAgain{20};
constexpr int kTermIndexBits = 4;  // The low bits are left for the index of a candidate server.

bool MayServe(const LaunchConfig& config) {
  return config.node_rank.value_or(0) == 0;
}

// Binds the endpoint, or finds out that a ddprun rendezvous has it: then there is no endpoint. For
// a moment the port can be taken while nobody answers: another agent has bound it and does not
// listen yet, or its server ends.
Result<std::optional<Endpoint>> BindOrFind(RendezvousServer& server, const Endpoint& endpoint) {
  const auto begin = std::chrono::steady_clock::now();
  while (true) {
    const Result<Endpoint> bound = server.Listen(endpoint);
    if (bound) {
      return std::optional(*bound);
    }
    if (bound.error().kind != ErrorKind::kUnavailable) {
      return bound.error();
    }
    const Result<void> hello = Hello(endpoint, kHelloTimeout);
    if (hello) {
      return std::optional<Endpoint>();
    }
    if (hello.error().kind != ErrorKind::kUnavailable ||
        std::chrono::steady_clock::now() >= begin + kSilentPort) {
      return Error{ErrorKind::kRefused, bound.error().message + "; " + hello.error().message +
                                            ": choose another port in --rdzv-endpoint"};
    }
    Log(LogLevel::kDebug, bound.error().message + ", but nobody answers: looking again");
    std::this_thread::sleep_for(kLookAgain);
  }
}

// The numeric address of `host`, or of the way to it.
Result<std::string> ResolveAddress(const std::string& host, std::uint16_t port, bool way_to_it) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  const int failed = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (failed != 0) {
    return Error{ErrorKind::kUnavailable,
                 "cannot look up the host '" + host + "': " + ::gai_strerror(failed)};
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> release(found, ::freeaddrinfo);
  sockaddr_storage address{};
  socklen_t length = found->ai_addrlen;
  std::memcpy(&address, found->ai_addr, length);
  if (way_to_it) {
    const UniqueFd probe(::socket(found->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    length = sizeof address;
    if (!probe || ::connect(probe.get(), found->ai_addr, found->ai_addrlen) != 0 ||
        ::getsockname(probe.get(), reinterpret_cast<sockaddr*>(&address), &length) != 0) {
      return SystemError("find a route from this machine to", host, errno);
    }
  }
  char text[INET6_ADDRSTRLEN] = "";
  if (::getnameinfo(reinterpret_cast<sockaddr*>(&address), length, text, sizeof text, nullptr, 0,
                    NI_NUMERICHOST) != 0) {
    return Error{ErrorKind::kUnavailable, "the host '" + host + "' has no numeric address"};
  }
  return std::string(text);
}

}  // namespace

void ServerRole::OnStoreClients(Loop& loop, std::function<void(UniqueFd)> adopt) {
  if (server) {
    server->SetStore(std::move(adopt));
  } else if (store_socket) {
    store_door = std::make_unique<Acceptor>(loop, AcceptorOptions{},
                                            AcceptorHandlers{.store = std::move(adopt)});
    store_door->Start(std::move(store_socket));
  }
}

void WarnIfOpen(const Endpoint& endpoint, const std::string& proof) {
  if (proof.empty() && !IsLoopback(endpoint.host)) {
    Log(LogLevel::kWarning, "whoever reaches " + ToString(endpoint) +
                                " can join its runs: give every node the same token with "
                                "--token-file=FILE or DDPRUN_TOKEN to prevent it");
  }
}

void RaiseFileLimit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
    limit.rlim_cur = limit.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &limit);
  }
}

CoordinatorConfig NewReign(const LaunchConfig& config) {
  const auto wall = std::chrono::system_clock::now().time_since_epoch();
  const auto milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(wall).count();
  std::random_device device;
  CoordinatorConfig reign;
  reign.term = {static_cast<std::uint64_t>(milliseconds) << kTermIndexBits};
  reign.seed = static_cast<std::uint64_t>(device()) << 32 | device();
  reign.shutdown_timeout = config.shutdown_timeout;
  return reign;
}

Result<ServerRole> TakeServerRole(Loop& loop, const LaunchConfig& config) {
  ServerRole role;
  if (config.standalone) {
    role.coordinator = std::make_unique<CoordinatorDriver>(loop, NewReign(config));
    role.channel = std::make_unique<LocalSyncChannel>(loop, role.coordinator->Handlers());
    role.where = "this process";
    if (config.literal_master) {
      Result<ListenSocket> socket = ListenOn(config.endpoint);
      if (!socket) {
        return Error{socket.error().kind,
                     socket.error().message + ": choose another --master-port or --master-addr"};
      }
      role.store_port = socket->endpoint.port;
      role.store_socket = std::move(socket->fd);
    }
    return role;
  }
  role.where = ToString(config.endpoint);
  ASSIGN_OR_RETURN(const std::string token, ChooseToken(config.token_file, config.token));
  if (MayServe(config)) {
    auto coordinator = std::make_unique<CoordinatorDriver>(loop, NewReign(config));
    auto server =
        std::make_unique<RendezvousServer>(loop, coordinator->Handlers(), AcceptorOptions{});
    server->RequireToken(token);
    const Result<std::optional<Endpoint>> bound = BindOrFind(*server, config.endpoint);
    if (bound && *bound) {
      RaiseFileLimit();
      role.where = ToString(**bound);
      role.store_port = config.literal_master ? (*bound)->port : 0;
      Log(LogLevel::kInfo, "serving the rendezvous at " + role.where);
      WarnIfOpen(**bound, token);
      role.channel = std::make_unique<LocalSyncChannel>(loop, coordinator->Handlers());
      role.coordinator = std::move(coordinator);
      role.server = std::move(server);
      return role;
    }
    if (bound) {
      Log(LogLevel::kInfo, "joining the rendezvous at " + role.where);
    } else if (bound.error().kind != ErrorKind::kNotFound) {
      return bound.error();
    } else if (config.node_rank) {
      // Where nobody fixed the ranks another node may well have that address.
      Log(LogLevel::kWarning, bound.error().message +
                                  ": this node, rank 0, does not carry the rendezvous (is "
                                  "--rdzv-endpoint right?)");
    }
  }
  role.channel = std::make_unique<GrpcSyncChannel>(loop, config.endpoint, token);
  return role;
}

Result<std::string> FindLocalAddress(const LaunchConfig& config) {
  constexpr std::uint16_t kAnyPort = 9;  // Nothing is sent; "discard" by its name.
  if (!config.local_address.empty()) {
    Result<std::string> own = ResolveAddress(config.local_address, kAnyPort, false);
    if (!own) {
      return Error{ErrorKind::kInvalid, own.error().message + " (--local-addr)"};
    }
    return own;
  }
  if (config.standalone) {
    return std::string("127.0.0.1");
  }
  Result<std::string> address = ResolveAddress(config.endpoint.host, kAnyPort, true);
  if (!address) {
    return Error{address.error().kind, address.error().message +
                                           ": is --rdzv-endpoint right? (--local-addr gives this "
                                           "node's own address)"};
  }
  return address;
}

}  // namespace ddprun
