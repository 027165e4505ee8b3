#include "launcher/server/server_role.h"

#include <chrono>
#include <optional>
#include <thread>

#include "common/files.h"
#include "common/log.h"
#include "common/slug.h"
#include "common/wall_clock.h"
#include "launcher/command_line/addresses.h"
#include "launcher/run_token.h"
#include "launcher/server/descriptors.h"
#include "launcher/server/server_files.h"
#include "launcher/slurm/sealed_channel.h"
#include "launcher/slurm/sealed_token.h"
#include "rendezvous/client.h"
#include "rendezvous/core/recovery.h"
#include "rendezvous/failover/claim_directory.h"
#include "rendezvous/listener/control_token.h"
#include "rendezvous/listener/hello.h"
#include "rendezvous/listener/listen_socket.h"
#include "rendezvous/local_channel.h"

namespace ddprun {
namespace {

constexpr Duration kHelloTimeout{3'000};
constexpr Duration kNobodyThere{30'000};
constexpr Duration kSaidAfter{1'000};
constexpr Duration kLookAgain{20};

// With TLS only a node that has a certificate can.
bool MayServe(const LaunchConfig& config) {
  if (config.context.joins) {
    return false;
  }
  const std::uint32_t place = config.context.index.value_or(config.node_rank.value_or(0));
  return place == 0 && (!config.tls.any() || !config.tls.certificate.empty());
}

// The flags that may have named the endpoint, for advice. `of_static`: that of a static rendezvous.
std::string EndpointFlags(const LaunchConfig& config, const std::string& of_static) {
  return (config.literal_master ? of_static + " or " : "") + "--rdzv-endpoint";
}

// Binds the endpoint, or finds out that a ddprun rendezvous has it: then there is no endpoint. For
// a while the port can be taken, and callers there be refused, or disconnected without a word:
// another agent has bound it and does not listen yet, its server ends, or has no descriptors left.
// Where the port is derived from a job's id, another rendezvous there is another job's.
Result<std::optional<Endpoint>> BindOrFind(RendezvousServer& server, const LaunchConfig& config) {
  const Endpoint& endpoint = config.endpoint;
  const bool derived = config.context.derived_port;
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  for (bool said = false;;) {
    const Result<Endpoint> bound = server.Listen(endpoint);
    if (bound) {
      return std::optional(*bound);
    }
    if (bound.error().kind != ErrorKind::kUnavailable) {
      return bound.error();
    }
    const auto asked = Clock::now();
    const Result<void> hello = Hello(endpoint, kHelloTimeout);
    if (hello && !derived) {
      return std::optional<Endpoint>();
    }
    const auto now = Clock::now();
    const std::string what = Continue(
        bound.error().message,
        "; " + (hello ? "another ddprun rendezvous already runs there" : hello.error().message));
    if (hello || hello.error().kind != ErrorKind::kUnavailable || now >= asked + kHelloTimeout ||
        now >= begin + kNobodyThere) {
      return Error{ErrorKind::kRefused,
                   Continue(what, derived ? ". The port is derived from the job's id. Set "
                                            "--rdzv-endpoint=HOST:PORT and --nnodes=N"
                                          : ". Choose another port in " +
                                                EndpointFlags(config, "--master-port"))};
    }
    if (!said && now >= begin + kSaidAfter) {
      said = true;
      Log(LogLevel::kWarning, what + ": trying again for up to " + FormatDuration(kNobodyThere));
    }
    std::this_thread::sleep_for(kLookAgain);
  }
}

// In a shared directory: the endpoint itself comes first where it is this machine's; then the
// address that other nodes reach this one at, with the same port if it is free.
Result<ServerRole> JoinFailover(AsioLoop& loop, const LaunchConfig& config, ServerNews news) {
  auto channel = std::make_unique<FollowingChannel>(loop);  // Before `role`: it outlives failover.
  ServerRole role;
  role.where = ToString(config.endpoint) + " (or its successor)";
  FailoverOptions options;
  options.core.given = config.endpoint;
  ASSIGN_OR_RETURN(const Access access, ChooseAccess(config));
  const auto claims = std::make_shared<ClaimDirectory>(config.run_dir);
  RETURN_IF_ERROR(claims->Prepare());
  options.claims = claims;
  options.tell_guard = std::move(news.tell_guard);
  ASSIGN_OR_RETURN(options.operators_token, OperatorsToken(access, config.run_dir));
  role.operators_token = options.operators_token;
  const auto network = std::make_shared<GrpcNetwork>(loop, access, options.operators_token);
  if (!access.tls.serves()) {  // A browser asks in the clear.
    network->UsePage(std::move(news.page));
  }
  options.network = network;
  options.new_term_config = NewTermConfig;
  options.on_serving = [on_serving = std::move(news.on_serving)](const NewServer& server) {
    RaiseFileLimit();
    on_serving(server);
  };
  options.on_stepped_down = std::move(news.on_stepped_down);
  ASSIGN_OR_RETURN(const std::string address, FindLocalAddress(config));
  options.places = {{address, config.endpoint.port}, {address, 0}};
  role.failover = std::make_unique<FailoverDriver>(loop, std::move(options), channel.get());
  if (MayServe(config)) {
    std::unique_ptr<RendezvousServer> server = network->NewRendezvous(role.failover->Handlers());
    const bool derived = config.context.derived_port;
    Result<std::optional<Endpoint>> bound = BindOrFind(*server, config);
    // If the user chose no port, any free one will do, since the claim names it.
    if (!bound && bound.error().kind != ErrorKind::kNotFound && !derived) {
      return bound.error();
    }
    if (bound && *bound) {
      Endpoint known = **bound;
      known.host = IsWildcard(known.host) ? HostName() : known.host;
      role.failover->UseServer(std::move(server), known);
    }
  }
  role.channel = std::move(channel);
  return role;
}

Result<ServerRole> StandAlone(AsioLoop& loop, const LaunchConfig& config) {
  ServerRole role;
  CoordinatorConfig term_config = NewTermConfig();
  term_config.alone = true;
  role.coordinator = std::make_unique<CoordinatorDriver>(loop, term_config);
  role.channel = LocalChannelTo(loop, role.coordinator->Handlers());
  role.where = "this process";
  if (config.literal_master) {
    Result<ListenSocket> socket = ListenOn(config.endpoint);
    if (!socket) {
      return Error{socket.error().kind,
                   Continue(socket.error().message,
                            ". Choose another --master-port, --master-addr or --rdzv-endpoint")};
    }
    role.store_port = socket->endpoint.port;
    role.store_socket = std::move(socket->fd);
  }
  return role;
}

}  // namespace

void ServerRole::OnStoreClients(AsioLoop& loop, std::function<void(UniqueFd)> adopt) {
  if (server) {
    server->SetStore(std::move(adopt));
  } else if (store_socket) {
    store_acceptor =
        std::make_unique<Acceptor>(loop, AcceptorOptions{.health = {.joinable = false}},
                                   AcceptorHandlers{.store = std::move(adopt)});
    store_acceptor->Start(std::move(store_socket));
  }
}

void WarnIfOpen(const Endpoint& endpoint, const Access& access, bool insecure,
                const std::string& why_no_token) {
  const bool asks = !access.token.empty() || (access.tls.serves() && access.tls.calls());
  if (!asks && !IsLoopback(endpoint.host)) {
    Log(LogLevel::kWarning, (insecure ? "--insecure is set: anyone who can reach "
                                      : "no token: anyone who can reach ") +
                                ToString(endpoint) + " can join this run" +
                                (insecure ? "" : ". Set the same --token-file on all nodes") +
                                (why_no_token.empty() ? "" : " (" + why_no_token + ")") +
                                " [no-token]");
  }
}

Result<std::string> OperatorsToken(const Access& access, const std::string& run_dir) {
  if (!access.token.empty() || run_dir.empty()) {
    return access.token.empty() ? DrawToken() : access.token;
  }
  ASSIGN_OR_RETURN(const std::string file, ShareToken(std::filesystem::path(run_dir) / "token"));
  return ReadOrdinaryTokenFile(file);
}

CoordinatorConfig NewTermConfig() {
  CoordinatorConfig term_config;
  term_config.proven = false;
  term_config.term = TermOf(static_cast<std::uint64_t>(UnixMilliseconds()));
  term_config.seed = RandomBits();
  return term_config;
}

std::optional<ServerFiles> ServerRole::OpenControlSocket(AsioLoop& loop,
                                                         const std::filesystem::path& run_directory,
                                                         const RunId& run_id) {
  if (!coordinator) {
    return {};
  }
  operators_token = DrawToken();
  coordinator->SetToken(operators_token);
  auto opened = ControlSocket::Open(loop, run_directory, coordinator->Handlers(), operators_token);
  auto files = opened ? ServerFiles::PublishControlSocket(run_directory, run_id)
                      : Result<ServerFiles>(opened.error());
  if (!files) {
    Log(LogLevel::kWarning,
        "`ddprun status` and other commands cannot find this run: " + files.error().message);
    return {};
  }
  control_socket = *std::move(opened);
  return *std::move(files);
}

void ServerRole::Close() {
  if (failover) {
    failover->Close();
  }
  if (server) {
    server->Shutdown();
  }
}

Result<ServerRole> TakeServerRole(AsioLoop& loop, const LaunchConfig& config, ServerNews news) {
  if (HasFailover(config)) {
    return JoinFailover(loop, config, std::move(news));
  }
  if (config.standalone) {
    return StandAlone(loop, config);
  }
  ServerRole role;
  role.where = ToString(config.endpoint);
  ASSIGN_OR_RETURN(Access access, ChooseAccess(config));
  const bool given = !access.token.empty() || config.tls.any() || config.insecure;
  const SealedToken drawn = config.in_slurm_job && !given ? DrawSealedToken() : SealedToken{};
  access.token += drawn.token;
  if (MayServe(config)) {
    auto coordinator = std::make_unique<CoordinatorDriver>(loop, NewTermConfig());
    AcceptorOptions options;
    options.health.run = config.run_id;
    options.health.sealed = drawn.sealed;
    auto server = std::make_unique<RendezvousServer>(loop, coordinator->Handlers(), options);
    server->Require(access);
    ASSIGN_OR_RETURN(role.operators_token, OperatorsToken(access, ""));
    server->Prove(role.operators_token);
    if (!access.tls.serves()) {
      server->SetPage(news.page);
    }
    const Result<std::optional<Endpoint>> bound = BindOrFind(*server, config);
    if (bound && *bound) {
      RaiseFileLimit();
      role.where = ToString(**bound);
      role.bound = role.known = **bound;
      role.store_port = config.literal_master ? (*bound)->port : 0;
      Log(LogLevel::kInfo, "serving the rendezvous at " + role.where);
      WarnIfOpen(**bound, access, config.insecure, drawn.why_not);
      role.channel = LocalChannelTo(loop, coordinator->Handlers());
      role.coordinator = std::move(coordinator);
      role.server = std::move(server);
      return role;
    }
    if (bound) {
      Log(LogLevel::kInfo, "joining the rendezvous at " + role.where);
    } else if (bound.error().kind != ErrorKind::kNotFound) {
      return bound.error();
    } else if (config.node_rank) {
      // If the ranks are not fixed, another node may well have that address.
      Log(LogLevel::kWarning,
          bound.error().message +
              ": this node has rank 0, but does not host the rendezvous. Check " +
              EndpointFlags(config, "--master-addr"));
    }
  }
  role.operators_token = access.token;
  role.known = config.endpoint;
  if (given) {
    role.channel = GrpcChannelTo(loop, config.endpoint, std::move(access));
  } else {
    role.channel = std::make_unique<SealedChannel>(loop, config.endpoint, std::move(access));
  }
  return role;
}

}  // namespace ddprun
