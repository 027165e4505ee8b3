// One preload process (proto/preload_protocol.h) from the agent's side: a process that has loaded
// the modules of the workers, and workers forked from it.
//
//   state    | says ready | refuses, or ends | no answer in time
//   ---------|------------|------------------|-------------------------------------------------
//   Loading  | Ready      | Gone, with why   | Loading (who waits continues without it)
//   Ready    |            | Gone, with why   | Late: that worker is begun from its file; one that
//            |            |                  | is forked later sees that no caller is left
//   Late     |            | Gone             | an answer: Ready. Asked again without one: Gone
//
// Gone: killed, and reaped unless the kernel keeps it for longer than a moment. Used by one thread
// at a time, and never the loop's, since each call may wait as long as it says; End comes from any.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>

#include "agent/workers/kept_preload.h"
#include "agent/workers/worker_launcher.h"
#include "agent/workers/worker_output.h"
#include "agent/workers/worker_spec.h"
#include "common/files.h"
#include "common/result.h"
#include "common/time.h"

namespace ddprun {

class PreloadHandle {
 public:
  // For an answer of a preload process that is ready. Forking takes some 10 ms, and more where it
  // has much memory; a worker's own start takes 300 and more.
  static constexpr Duration kPatience{200};

  // `spec`: a worker's, without what differs between workers. Blocks for its execve.
  static Result<std::shared_ptr<PreloadHandle>> Start(WorkerSpec spec, const ChildStdio& stdio);
  // One that this process was started with.
  static std::shared_ptr<PreloadHandle> Take(GivenPreload given);
  ~PreloadHandle();
  PreloadHandle(const PreloadHandle&) = delete;
  PreloadHandle& operator=(const PreloadHandle&) = delete;

  // Waits while it loads; less where `under_way` is given up. Ready: nothing; else why not (yet).
  Result<void> AwaitReady(Duration limit, const LaunchUnderWay& under_way);

  // The worker runs, its own session's leader and this process's child. An error: nothing runs, and
  // gone() says whether another try makes sense. kInvalid: no preload process of this program does.
  // `command_line`: the interpreter's, if it is another one than the preload process's; else none.
  Result<LaunchedWorker> Fork(const WorkerSpec& spec, const ChildStdio& stdio,
                              const std::vector<std::string>& command_line,
                              LaunchUnderWay& under_way);

  // Gone from here on if its process has ended.
  void LookWhetherItLives();

  bool gone() const;
  bool ready() const { return ready_ && !gone(); }
  // The modules that are left out, for people; "": none. The preload process said so when it was
  // ready.
  const std::string& remark() const { return remark_; }

  // It stays when this process ends, for the launch that asks at `listener`, and is gone from here
  // on. Returns its pid. Never waits.
  Result<pid_t> Keep(int listener, int plan, Duration idle);

  // At once; a caller that waits for it hears of it.
  void End();

 private:
  PreloadHandle(LaunchedWorker process, UniqueFd socket)
      : pid_(process.pid), pidfd_(std::move(process.pidfd)), socket_(std::move(socket)) {}
  Result<struct PreloadReply> Receive(int socket, Duration limit, const LaunchUnderWay& under_way,
                                      bool verified);
  Result<LaunchedWorker> Adopt(pid_t pid, int line, LaunchUnderWay& under_way);
  Error MarkGone(std::string why);

  mutable std::mutex mutex_;
  pid_t pid_ = 0;  // Not reaped, so its number is not another process's; with the lock.
  const UniqueFd pidfd_;
  UniqueFd socket_;
  std::uint32_t sequence_ = 0;
  std::atomic<bool> ready_ = false;
  std::string remark_;
  bool late_ = false;
};

}  // namespace ddprun
