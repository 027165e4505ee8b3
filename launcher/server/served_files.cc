#include "launcher/server/served_files.h"

#include <string>
#include <utility>

#include "common/log.h"

namespace ddprun {
namespace {

constexpr Duration kServedFilesLimit{1'000};

}  // namespace

void ServedFiles::Keep(ServerFiles files) {
  files_ = std::make_shared<Files>(std::move(files));
}

void ServedFiles::Write(std::function<Result<ServerFiles>()> write) {
  struct Written {
    std::shared_ptr<Files> files = std::make_shared<Files>();
    std::string refused;
  };
  const auto written = std::make_shared<Written>();
  loop_.RunBounded(
      kServedFilesLimit,
      [written, old = std::exchange(files_, nullptr), write = std::move(write)]() mutable {
        old.reset();  // First: it may be a link of the same name.
        if (Result<ServerFiles> made = write()) {
          written->files->emplace(*std::move(made));
        } else {
          written->refused = made.error().message;
        }
      },
      [this, written, reign = ++reign_](bool in_time) {
        if (!in_time) {
          Log(LogLevel::kWarning,
              "writing where this node's server is takes longer than " +
                  FormatDuration(kServedFilesLimit) +
                  " (does the disk of the run directory answer?): going on without; ddprun's "
                  "verbs need --endpoint, and --token-file where it asks for a token");
        } else if (!written->refused.empty()) {
          Log(LogLevel::kWarning, written->refused);
        } else if (reign == reign_) {
          files_ = written->files;
        }
      });
}

void ServedFiles::Remove() {
  ++reign_;
  if (files_) {
    loop_.RunBounded(
        kServedFilesLimit, [old = std::exchange(files_, nullptr)] {}, [](bool) {});
  }
}

}  // namespace ddprun
