#include "launcher/serve.h"

#include <signal.h>

#include <boost/asio/signal_set.hpp>
#include <optional>

#include "common/log.h"
#include "launcher/server_files.h"
#include "launcher/server_role.h"
#include "proto/exit_code.h"
#include "rendezvous/core/recovery.h"

namespace ddprun {
namespace {

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
  Log(LogLevel::kError, error.message);
  return error.kind == ErrorKind::kInvalid ? kExitUsage : kExitUnavailable;
}

}  // namespace

int Serve(const ServerConfig& config) {
  StartLog("ddprun rendezvous", config.verbose ? LogLevel::kDebug : LogLevel::kInfo);
  RaiseFileLimit();
  Loop loop;
  boost::asio::signal_set signals(loop.io(), SIGINT, SIGTERM);
  Result<Kept> kept = OpenJournal(config.journal);
  if (!kept) {
    return Refuse(kept.error());
  }
  CoordinatorConfig reign = NewReign(LaunchConfig{});
  if (const Result<void> begun = BeginReign(*kept, reign); !begun) {
    return Refuse(begun.error());
  }
  Result<std::string> token = ChooseToken(config.token_file, config.token);
  if (!token) {
    return Refuse(token.error());
  }
  CoordinatorDriver coordinator(loop, reign);
  RendezvousServer server(loop, coordinator.Handlers(), AcceptorOptions{});
  server.RequireToken(*token);
  coordinator.SetToken(*std::move(token));
  const Result<Endpoint> bound = server.Listen(config.listen);
  if (!bound) {
    Log(LogLevel::kError, bound.error().message);
    return kExitUnavailable;
  }
  WarnIfOpen(*bound, config.token_file + config.token);
  Log(LogLevel::kInfo, "serving at " + ToString(*bound) +
                           (config.journal.empty() ? "" : ", journal in " + config.journal));
  if (kept->file) {
    coordinator.UseJournal(std::make_unique<Journal>(loop, *std::move(kept->file)),
                           kept->found.runs);
  }
  int stopped_by = 0;
  signals.async_wait([&](boost::system::error_code, int signal) {
    stopped_by = signal;
    Log(LogLevel::kInfo, "stopped by " + SignalName(signal));
    loop.Stop();
  });
  loop.Run();
  server.Shutdown();
  return kExitSignalBase + stopped_by;
}

}  // namespace ddprun
