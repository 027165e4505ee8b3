// The files of the server that this agent carries (server_files), while it does, so that `ddprun
// status`, `drain` and `stop` find it, and those who may use them can. At a takeover they are
// written, and at its end removed, on threads of their own: their disks may hang, and the server
// serves all the same.
//
// Decides nothing but when to continue without: files that are written too late are removed at
// once. On the loop, but for Open and RemoveNow.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "common/asio_loop.h"
#include "launcher/server/server_files.h"
#include "launcher/server/server_role.h"

namespace ddprun {

class ServedFiles {
 public:
  ServedFiles(AsioLoop& loop, std::filesystem::path run_directory, RunId run_id, TlsFiles tls)
      : loop_(loop),
        run_directory_(std::move(run_directory)),
        run_id_(std::move(run_id)),
        tls_(std::move(tls)) {}

  // Before the loop runs: of a server that is here from the start, or of one that only this
  // machine's operators can reach.
  Result<void> Open(ServerRole& role);

  // In place of what was kept.
  void Write(const Endpoint& endpoint, const std::string& token);
  void Remove();

  // At the end: the loop runs no more.
  void RemoveNow() { files_.reset(); }

 private:
  using Files = std::optional<ServerFiles>;

  AsioLoop& loop_;
  const std::filesystem::path run_directory_;
  const RunId run_id_;
  const TlsFiles tls_;
  std::shared_ptr<Files> files_;   // None: no server here, or none yet.
  std::uint64_t write_batch_ = 0;  // Files written for an earlier one are ignored.
};

}  // namespace ddprun
