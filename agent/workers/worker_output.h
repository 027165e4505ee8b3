// One worker's stdin, stdout and stderr: inherited, to log files, or through pipes that the agent
// reads, so that whole lines of several workers share a console. Where that is a terminal, each
// stream shown there has a terminal of its own in place of its pipe (worker_terminal.h).
//
// Reads at most one bounded piece per stream and loop turn; while a console or file has no room
// nothing is read, so a worker that prints faster than somebody reads waits in its own write. End
// of file is never taken for the worker's end, nor the other way round.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "agent/workers/output_sink.h"
#include "agent/workers/output_stream.h"
#include "agent/workers/printed_progress.h"
#include "agent/workers/terminal_console.h"
#include "agent/workers/worker_launcher.h"
#include "agent/workers/worker_spec.h"
#include "common/asio_loop.h"
#include "common/files.h"
#include "common/result.h"

namespace ddprun {

// The agent's own stdout and stderr.
struct Consoles {
  // `kept`: of what workers print; none: it is not kept.
  explicit Consoles(Loop& loop, std::shared_ptr<KeptOutput> kept = nullptr,
                    ProgressPlan progress = {});
  // What was not taken yet, for people; "": all was.
  std::string Unread();
  // Blocks until all was, or the limit is over.
  void Flush(Duration limit);
  // The window of a terminal may have changed.
  void LookAtWindows();
  OutputSink out;
  OutputSink err;
  OpenLine open_line;  // Of both.
  // Each where it can be drawn over: in front of its sink, for workers that share it. The same one
  // where both are one terminal, so that each knows of the other's rows. Or none.
  std::shared_ptr<TerminalConsole> out_terminal;
  std::shared_ptr<TerminalConsole> err_terminal;
  // In front of them, for workers whose equal lines are said once.
  MergedConsole merged_out;
  MergedConsole merged_err;
  std::shared_ptr<KeptOutput> kept;
  const ProgressPlan progress;  // Of workers whose streams are to be read (StreamPlan::read).
};

// What a worker wrote to stderr last, as far as the agent has it: else it is in `log`.
struct LastErrors {
  std::vector<std::string> lines;
  std::filesystem::path log;  // Written by the worker itself; empty: none.
};

// The last lines of such a log. Reads a file: not for the loop.
std::vector<std::string> LastLinesOf(const std::filesystem::path& log);

// The descriptors of one worker's three streams, and the other ends of its pipes.
struct OpenedOutput {
  struct Stream {
    int target = 0;         // STDOUT_FILENO or STDERR_FILENO.
    UniqueFd pipe;          // To be read; or a terminal's end.
    UniqueFd file;          // Of a tee; or none.
    UniqueFd filtered;      // Or none.
    bool as_it_is = false;  // Shown as if the worker had inherited the console.
  };
  ChildStdio stdio{};
  std::vector<UniqueFd> child_ends;  // To be closed once the worker was launched.
  std::vector<Stream> streams;
};

// Opens everything the worker needs; `inherit`: it gets the agent's own three descriptors where
// its plan says console alone and that nobody reads. Waits for the disks that the files are on: not
// for the loop.
Result<OpenedOutput> OpenOutput(const WorkerSpec& spec, bool inherit);

class WorkerOutput {
 public:
  WorkerOutput(AsioLoop& loop, Consoles& consoles, const WorkerSpec& spec, OpenedOutput opened);
  ~WorkerOutput();
  WorkerOutput(const WorkerOutput&) = delete;
  WorkerOutput& operator=(const WorkerOutput&) = delete;

  // Begins to read. on_drained is called on the loop, once, when every pipe has ended and every
  // file is written.
  void Start(std::function<void()> on_drained);

  // The worker has ended: takes what it left in its pipes, and tells its progress a last time.
  // Reads no file.
  LastErrors TakeLastErrors();

  bool drained() const;

  // Its terminals get the windows of the agent's own, as they do when it is started.
  void SetWindows();

  // Takes what is in the pipes now and reads no further.
  void Abandon();

 private:
  class State;
  std::shared_ptr<State> state_;  // Shared with reads in flight.
};

}  // namespace ddprun
