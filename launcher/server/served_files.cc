#include "launcher/server/served_files.h"

#include <string>

#include "common/log.h"

namespace ddprun {
namespace {

constexpr Duration kServedFilesLimit{1'000};

}  // namespace

Result<void> ServedFiles::Open(ServerRole& role) {
  if (!role.server) {
    files_ = std::make_shared<Files>(role.OpenControlSocket(loop_, run_directory_, run_id_));
    return {};
  }
  ASSIGN_OR_RETURN(const Endpoint endpoint, ParseEndpoint(role.where, 0));
  ASSIGN_OR_RETURN(ServerFiles files, ServerFiles::Publish(run_directory_, endpoint, run_id_,
                                                           role.operators_token, tls_));
  files_ = std::make_shared<Files>(std::move(files));
  role.coordinator->SetToken(role.operators_token);
  return {};
}

void ServedFiles::Write(const Endpoint& endpoint, const std::string& token) {
  struct Written {
    std::shared_ptr<Files> files = std::make_shared<Files>();
    std::string refused;
  };
  const auto written = std::make_shared<Written>();
  loop_.RunBounded(
      kServedFilesLimit,
      [written, old = std::exchange(files_, nullptr), directory = run_directory_, endpoint,
       run_id = run_id_, token, tls = tls_]() mutable {
        old.reset();  // First: it may be a link of the same name.
        if (auto made = ServerFiles::Publish(directory, endpoint, run_id, token, tls)) {
          written->files->emplace(*std::move(made));
        } else {
          written->refused = made.error().message;
        }
      },
      [this, written, batch = ++write_batch_](bool in_time) {
        if (!in_time) {
          Log(LogLevel::kWarning,
              "writing the address of this node's server takes longer than " +
                  FormatDuration(kServedFilesLimit) +
                  " (is the file system of the run directory responding?). Continuing without it: "
                  "`ddprun status` and other commands need --endpoint, and --token-file if the "
                  "server has a token");
        } else if (!written->refused.empty()) {
          Log(LogLevel::kWarning, written->refused);
        } else if (batch == write_batch_) {
          files_ = written->files;
        }
      });
}

void ServedFiles::Remove() {
  ++write_batch_;
  if (files_) {
    loop_.RunBounded(
        kServedFilesLimit, [old = std::exchange(files_, nullptr)] {}, [](bool) {});
  }
}

}  // namespace ddprun
