#include "launcher/server/serve.h"
#include "launcher/command_line/addresses.h"
#include "launcher/command_line/flags.h"
#include "launcher/server/descriptors.h"

#include <signal.h>
#include <unistd.h>

#include <boost/asio/signal_set.hpp>
#include <optional>

#include "common/asio_loop.h"
#include "common/exit_code.h"
#include "common/log.h"
#include "launcher/evidence/run_evidence.h"
#include "launcher/run_token.h"
#include "launcher/server/server_files.h"
#include "launcher/server/server_role.h"
#include "launcher/server/server_watch.h"
#include "launcher/slurm/sealed_token.h"
#include "rendezvous/core/recovery.h"
#include "rendezvous/journal_file.h"
#include "rendezvous/succession/claim_directory.h"

namespace ddprun {
namespace {

constexpr Duration kBundlesLimit{500};

struct Kept {
  std::optional<JournalFile> file;
  JournalContents found;
};

Result<Kept> OpenJournal(const std::string& path) {
  Kept kept;
  if (path.empty()) {
    return kept;
  }
  ASSIGN_OR_RETURN(JournalFile file, JournalFile::Open(path, kept.found));
  kept.file.emplace(std::move(file));
  for (const std::string& remark : kept.found.remarks) {
    Log(LogLevel::kWarning, "the journal is damaged: " + remark +
                                "; what it would have said is found out from agents' reports");
  }
  return kept;
}

// No two servers may reign under the same term, so this one is on disk before anybody hears it.
Result<void> BeginReign(Kept& kept, CoordinatorConfig& reign) {
  if (!kept.file) {
    return {};
  }
  reign.term = ReignAfter(reign.term, kept.found.term.Next());
  return kept.file->Append(Reign{reign.term});
}

int Refuse(const Error& error) {
  Log(LogLevel::kError, InOneLine(error.message));
  return error.kind == ErrorKind::kInvalid ? kExitUsage : kExitUnavailable;
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

Result<void> Open(SuccessionDriver& succession, GrpcNetwork& network, const ServerConfig& config,
                  const Access& access) {
  std::unique_ptr<RendezvousServer> server = network.NewRendezvous(succession.Handlers());
  ASSIGN_OR_RETURN(Endpoint bound, server->Listen(config.listen));
  WarnIfOpen(bound, access);
  bound.host = IsWildcard(bound.host) ? HostName() : bound.host;
  succession.UseServer(std::move(server), bound);
  return {};
}

Result<void> OpenWatch(ServerWatch& watch, const SuccessionDriver& succession) {
  return watch.Open([&] { return succession.coordinator(); }, [&] { return succession.door(); },
                    [&] { return succession.server_at(); });
}

// Serves while it has the newest claim of the run directory, and stands by while a node has it.
int ServeInTurn(const ServerConfig& config, AsioLoop& loop) {
  SuccessionOptions options;
  options.core.listens = false;
  options.new_reign = NewReign;
  options.core.given = config.listen;
  const Result<Access> access = ChooseAccess(config.token_file, config.token, config.tls);
  if (!access) {
    return Refuse({access.error().kind, WithOrigins(access.error().message, config.settings)});
  }
  const auto claims = std::make_shared<ClaimDirectory>(config.run_dir);
  options.claims = claims;
  if (const Result<void> prepared = claims->Prepare(); !prepared) {
    return Refuse(prepared.error());
  }
  const Result<std::string> operators = OperatorsToken(*access, config.run_dir);
  if (!operators) {
    return Refuse(operators.error());
  }
  options.operators_token = *operators;
  ServerWatch watch(loop, config, *operators);
  const auto network = std::make_shared<GrpcNetwork>(loop, *access, *operators);
  if (!access->tls.serves()) {  // A browser asks in the clear.
    network->UsePage(watch.OfPort());
  }
  options.network = network;
  RunEvidence evidence(loop, config.run_dir, /*run_id=*/"", /*node=*/"");
  options.on_stepped_down = [&evidence] { evidence.ServerWent(); };
  options.on_serving = [&evidence](const NewServer& server) {
    server.coordinator.SetToken(server.token);
    evidence.ServerCame(server.coordinator);
  };
  SuccessionDriver succession(loop, std::move(options), nullptr);
  Result<void> open = watch.Bind();
  open = open ? Open(succession, *network, config, *access) : open;
  open = open ? OpenWatch(watch, succession) : open;
  if (!open) {
    Log(LogLevel::kError, InOneLine(open.error().message));
    return kExitUnavailable;
  }
  succession.Start();
  const int code = RunUntilStopped(loop);
  evidence.LookLast();
  succession.Close();
  evidence.Finish(kBundlesLimit);
  return code;
}

int ServeAlone(const ServerConfig& config, AsioLoop& loop) {
  Result<Kept> kept = OpenJournal(config.journal);
  if (!kept) {
    return Refuse(kept.error());
  }
  CoordinatorConfig reign = NewReign();
  if (const Result<void> begun = BeginReign(*kept, reign); !begun) {
    return Refuse(begun.error());
  }
  Result<Access> access = ChooseAccess(config.token_file, config.token, config.tls);
  if (!access) {
    return Refuse({access.error().kind, WithOrigins(access.error().message, config.settings)});
  }
  const bool given = !access->token.empty() || config.tls.any() || config.insecure;
  const SealedToken drawn = config.in_slurm_job && !given ? DrawSealedToken() : SealedToken{};
  access->token += drawn.token;
  CoordinatorDriver coordinator(loop, reign);
  ServerWatch watch(loop, config, access->token);
  AcceptorOptions options;
  options.health.sealed = drawn.sealed;
  RendezvousServer server(loop, coordinator.Handlers(), options);
  server.Require(*access);
  coordinator.SetToken(access->token);
  if (!access->tls.serves()) {
    server.SetPage(watch.OfPort());
  }
  const Result<void> watched = watch.Bind();
  const Result<Endpoint> bound =
      watched ? server.Listen(config.listen) : Result<Endpoint>(watched.error());
  const auto at = [&bound] { return *bound; };
  if (const auto open =
          bound ? watch.Open([&] { return &coordinator; }, at, at) : Result<void>(bound.error());
      !open) {
    Log(LogLevel::kError, InOneLine(open.error().message));
    return kExitUnavailable;
  }
  WarnIfOpen(*bound, *access, drawn.why_not);
  Log(LogLevel::kInfo, "serving at " + ToString(*bound) +
                           (config.journal.empty() ? "" : ", journal in " + config.journal));
  if (kept->file) {
    const auto file = std::make_shared<JournalFile>(*std::move(kept->file));
    coordinator.UseJournal(std::make_unique<Journal>(loop, file), kept->found.runs,
                           kept->found.ended);
  }
  const int code = RunUntilStopped(loop);
  server.Shutdown();
  return code;
}

int ServeUntilStopped(ServerConfig config) {
  if (const Result<void> found = FindToken(config); !found) {
    return Refuse(found.error());
  }
  AsioLoop loop;
  return config.run_dir.empty() ? ServeAlone(config, loop) : ServeInTurn(config, loop);
}

}  // namespace

int Serve(const ServerConfig& config) {
  constexpr Duration kFlushLimit{1'000};
  SetLogFormat(config.log_format);
  QueueLog();
  StartLog("ddprun rendezvous", config.verbose ? LogLevel::kDebug : LogLevel::kInfo);
  const Result<void> enough = HaveDescriptors();
  if (!enough) {
    Log(LogLevel::kError, enough.error().message);
  }
  RaiseFileLimit();
  const int code = enough ? ServeUntilStopped(config) : kExitInternal;
  FlushLog(kFlushLimit);
  return code;
}

}  // namespace ddprun
