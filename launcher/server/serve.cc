#include "launcher/server/serve.h"
#include "common/wall_clock.h"
#include "launcher/command_line/flags.h"
#include "launcher/server/descriptors.h"

#include <signal.h>
#include <unistd.h>

#include <boost/asio/signal_set.hpp>
#include <optional>

#include "common/asio_loop.h"
#include "common/exit_code.h"
#include "common/files.h"
#include "common/log.h"
#include "launcher/evidence/run_evidence.h"
#include "launcher/run_token.h"
#include "launcher/server/server_files.h"
#include "launcher/server/server_role.h"
#include "launcher/server/server_watch.h"
#include "launcher/slurm/sealed_token.h"
#include "rendezvous/core/failover/serving.h"
#include "rendezvous/failover/claim_directory.h"
#include "rendezvous/failover/kept_write.h"
#include "rendezvous/failover/sole_claim.h"
#include "rendezvous/pool/pool_driver.h"
#include "rendezvous/wire/kept_requests.h"

namespace ddprun {
namespace {

constexpr Duration kBundlesLimit{500};

// The state that an earlier server has left in its state directory, which is this one's alone from
// now on.
struct Left {
  UniqueFd lock;
  std::shared_ptr<ClaimDirectory> claims;  // None: this server keeps nothing.
  TakeClaim take;
};

Result<Left> OpenState(const std::string& path) {
  Left left;
  if (path.empty()) {
    return left;
  }
  left.claims = std::make_shared<ClaimDirectory>(path, kStateDirectory);
  RETURN_IF_ERROR(left.claims->Prepare());
  ASSIGN_OR_RETURN(left.lock, left.claims->Lock());
  ASSIGN_OR_RETURN(left.take, SoleClaim::Next(*left.claims));
  return left;
}

// No two servers may have the same term, so it is on disk before any node gets it.
Result<void> TakeClaimOf(Left& left, SoleClaim& claim, const Endpoint& endpoint) {
  RETURN_IF_ERROR(claim.Take(left.take, endpoint));
  left.claims->RemoveBefore(left.take.number - 1);
  if (left.take.takes_over) {
    Log(LogLevel::kInfo, "continuing after an earlier server (claim " +
                             std::to_string(left.take.number) + " in " + left.claims->Where() +
                             "); the nodes of its runs will report to this one");
  }
  return {};
}

// The exit code of whatever stopped it.
int RunUntilStopped(AsioLoop& loop) {
  int stopped_by = 0;
  boost::asio::signal_set signals(loop.io(), SIGINT, SIGTERM);
  signals.async_wait([&](boost::system::error_code, int signal) {
    stopped_by = signal;
    Log(LogLevel::kInfo, "stopped by " + SignalName(signal));
    loop.Stop();
  });
  loop.Run();
  return kExitSignalBase + stopped_by;
}

Result<void> Open(FailoverDriver& failover, GrpcNetwork& network, const ServerConfig& config,
                  const Access& access) {
  std::unique_ptr<RendezvousServer> server = network.NewRendezvous(failover.Handlers());
  ASSIGN_OR_RETURN(Endpoint bound, server->Listen(config.listen));
  WarnIfOpen(bound, access, config.insecure);
  bound.host = IsWildcard(bound.host) ? HostName() : bound.host;
  failover.UseServer(std::move(server), bound);
  return {};
}

// Serves while it has the newest claim of the run directory, and stands by while a node has it.
Result<int> ServeWithFailover(const ServerConfig& config, AsioLoop& loop) {
  FailoverOptions options;
  options.core.listens = false;
  options.new_term_config = NewTermConfig;
  options.core.given = config.listen;
  ASSIGN_OR_RETURN(const Access access, ChooseAccess(config));
  const auto claims = std::make_shared<ClaimDirectory>(config.run_dir);
  options.claims = claims;
  RETURN_IF_ERROR(claims->Prepare());
  ASSIGN_OR_RETURN(options.operators_token, OperatorsToken(access, config.run_dir));
  ServerWatch watch(loop, config, options.operators_token);
  const auto network = std::make_shared<GrpcNetwork>(loop, access, options.operators_token);
  if (!access.tls.serves()) {  // A browser asks in the clear.
    network->UsePage(watch.OfPort());
  }
  options.network = network;
  RunEvidence evidence(loop, config.run_dir, /*run_id=*/"", /*node=*/"");
  options.on_stepped_down = [&evidence] { evidence.ServerWent(); };
  options.on_serving = [&evidence](const NewServer& server) {
    server.coordinator.SetToken(server.token);
    evidence.ServerCame(server.coordinator);
  };
  FailoverDriver failover(loop, std::move(options), nullptr);
  RETURN_IF_ERROR(watch.Bind());
  RETURN_IF_ERROR(Open(failover, *network, config, access));
  RETURN_IF_ERROR(watch.Open([&] { return failover.coordinator(); },
                             [&] { return failover.served_at(); },
                             [&] { return failover.server_at(); }));
  failover.Start();
  const int code = RunUntilStopped(loop);
  evidence.LookLast();
  failover.Close();
  evidence.Finish(kBundlesLimit);
  return code;
}

// The detached runs of a pool, in a file.
Result<void> KeepDetached(PoolDriver& pool, Loop& loop, const std::filesystem::path& file,
                          std::optional<KeptWrite>& writes) {
  ASSIGN_OR_RETURN(std::vector<PoolRequest> earlier, ReadPoolRequests(file));
  writes.emplace(loop, "the file of detached runs '" + file.native() + "'", "those that wait");
  pool.KeepDetached(std::move(earlier), [&writes, file](std::vector<PoolRequest> now,
                                                        std::function<void()> done) {
    writes->Write(
        {.write = [file, now = std::move(now)] { return WriteWhole(file, Encode(now), 0600); },
         .done = std::move(done)});
  });
  return {};
}

Result<int> ServeAlone(const ServerConfig& config, AsioLoop& loop) {
  ASSIGN_OR_RETURN(Left left, OpenState(config.state_dir));
  CoordinatorConfig term_config = NewTermConfig();
  term_config.term = NewClaim(left.take, term_config.term, config.listen).term;
  ASSIGN_OR_RETURN(Access access, ChooseAccess(config));
  const bool given = !access.token.empty() || config.tls.any() || config.insecure;
  const SealedToken drawn = config.in_slurm_job && !given ? DrawSealedToken() : SealedToken{};
  access.token += drawn.token;
  CoordinatorDriver coordinator(loop, term_config);
  ServerWatch watch(loop, config, access.token);
  AcceptorOptions options;
  options.health.sealed = drawn.sealed;
  PoolDriver pool(loop, static_cast<std::uint64_t>(UnixMicroseconds()));
  RendezvousHandlers handlers = coordinator.Handlers();
  if (!access.token.empty()) {  // It is needed to join a pool, to launch there and to look.
    handlers =
        pool.With(std::move(handlers), [&coordinator](const RunId& run_id, const auto& of_pool) {
          coordinator.ForgetForAnother(run_id, of_pool);
        });
  }
  RendezvousServer server(loop, std::move(handlers), options);
  server.Require(access);
  coordinator.SetToken(access.token);
  if (!access.tls.serves()) {
    server.SetPage(watch.OfPort());
  }
  RETURN_IF_ERROR(watch.Bind());
  ASSIGN_OR_RETURN(const Endpoint bound, server.Listen(config.listen));
  const auto at = [&bound] { return bound; };
  RETURN_IF_ERROR(watch.Open([&] { return &coordinator; }, at, at));
  WarnIfOpen(bound, access, config.insecure, drawn.why_not);
  std::optional<SoleClaim> claim;
  if (left.claims) {
    claim.emplace(loop, left.claims, coordinator);
    RETURN_IF_ERROR(TakeClaimOf(left, *claim, bound));
  }
  std::optional<KeptWrite> requests;
  if (left.claims && !access.token.empty()) {
    RETURN_IF_ERROR(
        KeepDetached(pool, loop, std::filesystem::path(config.state_dir) / "pool", requests));
  }
  Log(LogLevel::kInfo,
      "serving at " + ToString(bound) + (left.claims ? ", state in " + config.state_dir : ""));
  const int code = RunUntilStopped(loop);
  server.Shutdown();
  if (claim) {
    claim->Close();
  }
  return code;
}

Result<int> ServeUntilStopped(ServerConfig config) {
  RETURN_IF_ERROR(FindToken(config, config.listen));
  AsioLoop loop;
  return config.run_dir.empty() ? ServeAlone(config, loop) : ServeWithFailover(config, loop);
}

}  // namespace

int Serve(const ServerConfig& config) {
  constexpr Duration kFlushLimit{1'000};
  ::signal(SIGXFSZ, SIG_IGN);  // A file that may not grow (ulimit -f) is a write that fails.
  SetLogFormat(config.log_format);
  QueueLog();
  StartLog("ddprun rendezvous", config.verbose ? LogLevel::kDebug : LogLevel::kInfo);
  const Result<void> enough = HaveDescriptors();
  RaiseFileLimit();
  const Result<int> code = enough ? ServeUntilStopped(config) : Result<int>(enough.error());
  if (!code) {
    Log(LogLevel::kError, WithOrigins(InOneLine(code.error().message), config.settings));
  }
  FlushLog(kFlushLimit);
  return code                                       ? *code
         : !enough                                  ? kExitInternal
         : code.error().kind == ErrorKind::kInvalid ? kExitUsage
                                                    : kExitUnavailable;
}

}  // namespace ddprun
