// The processes of the run that a daemon's machine takes part in: an ordinary launch, in a session
// of its own. They need no daemon: a later one finds them again by a file.
//
//   <user directory>/daemon-<name>   "RUN PART DETACHED POOL PID": the last part that was started
//                                    here. The launch holds a lock on it, until no process of it is
//                                    left, and the daemon another, so that no second one takes its
//                                    part
//
// Its lines come through a pipe, and its exit code goes to the daemon that started it. A later
// daemon gets neither.
#pragma once

#include <sys/types.h>

#include <boost/asio/posix/stream_descriptor.hpp>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/workers/line_assembler.h"
#include "agent/workers/output_stream.h"
#include "agent/workers/worker_launcher.h"
#include "agent/workers/worker_spec.h"
#include "common/asio_loop.h"
#include "common/files.h"
#include "common/result.h"
#include "rendezvous/messages/pool_messages.h"

namespace ddprun {

struct PartName {
  RunId run_id;
  std::uint64_t part = 0;
  bool detached = false;
  std::string pool = {};  // HOST:PORT of its server.
};

class LaunchedPart : public std::enable_shared_from_this<LaunchedPart> {
 public:
  struct Told {
    std::function<void(std::string line)> said;
    // No process of the part is left; none: its exit code is not known.
    std::function<void(std::optional<int> code)> ended;
  };

  // The part that the file names. `runs`: its processes are there.
  struct Found {
    PartName name;
    bool runs = false;
    pid_t guard = 0;
  };
  // For a daemon, while it keeps the descriptor. kRefused: another one of this name is there.
  static Result<UniqueFd> Own(const std::filesystem::path& file);

  // nullopt: no part was ever started here.
  static Result<std::optional<Found>> Look(const std::filesystem::path& file);

  // Starts one. kUnavailable: processes of another part are there.
  static Result<std::shared_ptr<LaunchedPart>> Start(AsioLoop& loop,
                                                     const std::filesystem::path& file,
                                                     const PartName& name, WorkerSpec launch,
                                                     Told told);
  // Watches one that an earlier daemon had started.
  static std::shared_ptr<LaunchedPart> Adopt(AsioLoop& loop, const std::filesystem::path& file,
                                             const Found& found, Told told);

  const PartName& name() const { return name_; }
  void Signal(int number);
  // Within a second: SIGTERM to its guard, then SIGKILL.
  void End();

  LaunchedPart(AsioLoop& loop, std::filesystem::path file, PartName name, Told told);
  ~LaunchedPart();
  LaunchedPart(const LaunchedPart&) = delete;
  LaunchedPart& operator=(const LaunchedPart&) = delete;

 private:
  void OnLaunched(Result<LaunchedWorker> launched);
  void Watch(pid_t guard, UniqueFd pidfd);
  void TakeLines(std::string_view bytes);
  void Look();

  AsioLoop& loop_;
  const std::filesystem::path file_;
  const PartName name_;
  const Told told_;
  pid_t guard_ = 0;         // 0: not yet, or not any more.
  std::vector<int> early_;  // Signals that came before.
  bool is_child_ = false;
  std::optional<int> code_;
  boost::asio::posix::stream_descriptor pidfd_;
  std::shared_ptr<OutputStream> output_;  // None: of an earlier daemon.
  LineAssembler lines_{""};
  bool ends_ = false;
  LoopTimer look_;
  LoopTimer kill_;
};

}  // namespace ddprun
