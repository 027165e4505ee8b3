// The files of the server that this agent carries (server_files), while it does. At a takeover they
// are written, and at its end removed, on threads of their own: their disks may hang, and the
// server serves all the same.
//
// Decides nothing but when to go on without: files that are written too late are removed at once.
// On the loop, but for Keep and RemoveNow.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "common/loop.h"
#include "launcher/server/server_files.h"

namespace ddprun {

class ServedFiles {
 public:
  explicit ServedFiles(Loop& loop) : loop_(loop) {}

  // Before the loop runs.
  void Keep(ServerFiles files);

  // `write` owns all that it touches. In place of what was kept.
  void Write(std::function<Result<ServerFiles>()> write);
  void Remove();

  // At the end: the loop runs no more.
  void RemoveNow() { files_.reset(); }

 private:
  using Files = std::optional<ServerFiles>;
  Loop& loop_;
  std::shared_ptr<Files> files_;  // None: no reign, or none yet.
  std::uint64_t reign_ = 0;       // What was written for an earlier one counts no more.
};

}  // namespace ddprun
