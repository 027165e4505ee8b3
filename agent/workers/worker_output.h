// One worker's stdin, stdout and stderr: inherited, to log files, or through pipes that the agent
// reads, so that whole lines of several workers share a console. Where that is a terminal, each
// stream shown there has a terminal of its own in place of its pipe (worker_terminal.h).
//
// Reads at most one bounded piece per stream and loop iteration. While a console or file has no
// room nothing is read, so a worker that prints faster than its output is read waits in its own
// write. End of file is never taken for the worker's end, nor the worker's end for end of file.
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
  // `kept` gets what workers print; none: it is not kept.
  explicit Consoles(Loop& loop, std::shared_ptr<KeptOutput> kept = nullptr,
                    ProgressPlan progress = {});
  // The name of a console that has not taken all output yet, for people; "": both have.
  std::string Unread();
  // Blocks until both have taken all, or the limit is over.
  void Flush(Duration limit);
  // The window of a terminal may have changed.
  void LookAtWindows();
  OutputSink out;
  OutputSink err;
  OpenLine open_line;  // Of both.
  // In front of its sink, for workers that share the console, if it is a terminal on which rows can
  // be drawn; else none. The same object for both if they are one terminal, so that rows do not
  // collide.
  std::shared_ptr<TerminalConsole> out_terminal;
  std::shared_ptr<TerminalConsole> err_terminal;
  // In front of the sinks, for workers whose equal lines are printed once.
  MergedConsole merged_out;
  MergedConsole merged_err;
  std::shared_ptr<KeptOutput> kept;
  const ProgressPlan progress;  // For workers whose streams are read (StreamPlan::read).
};

// The last lines that a worker wrote to stderr, if the agent read them; else `log` has them.
struct LastErrors {
  std::vector<std::string> lines;
  std::filesystem::path log;  // A file that the worker writes itself; empty: none.
};

// The last lines of such a log. Reads a file: not for the loop.
std::vector<std::string> LastLinesOf(const std::filesystem::path& log);

// The descriptors of one worker's three streams, and the other ends of its pipes.
struct OpenedOutput {
  struct Stream {
    int target = 0;         // STDOUT_FILENO or STDERR_FILENO.
    UniqueFd pipe;          // The end that the agent reads: of a pipe or a terminal.
    UniqueFd file;          // The log file of a tee; or none.
    UniqueFd filtered;      // The file of filtered lines; or none.
    bool as_it_is = false;  // Shown as if the worker had inherited the console.
  };
  ChildStdio stdio{};
  std::vector<UniqueFd> child_ends;  // To be closed once the worker was launched.
  std::vector<Stream> streams;
};

// Opens everything the worker needs. `inherit`: a stream whose plan is only the console, and which
// the agent need not read, is the agent's own descriptor. Waits for the disks of the files: not for
// the loop.
Result<OpenedOutput> OpenOutput(const WorkerSpec& spec, bool inherit);

class WorkerOutput {
 public:
  WorkerOutput(AsioLoop& loop, Consoles& consoles, const WorkerSpec& spec, OpenedOutput opened);
  WorkerOutput(const WorkerOutput&) = delete;
  WorkerOutput& operator=(const WorkerOutput&) = delete;

  // Begins to read. Calls on_drained on the loop, once, when every pipe has ended and every file is
  // written.
  void Start(std::function<void()> on_drained);

  // The worker has ended: reads what it left in its pipes, and reports its printed progress a last
  // time. Reads no file.
  LastErrors TakeLastErrors();

  bool drained() const;

  // Gives its terminals the window sizes of the agent's own, as at the start.
  void SetWindows();

  // Reads what is in the pipes now and nothing after that.
  void Abandon();

 private:
  void Add(AsioLoop& loop, Consoles& consoles, const WorkerSpec& spec, OpenedOutput::Stream opened);
  void SayWhenDrained();

  std::vector<std::unique_ptr<OutputStream>> streams_;
  OutputStream* errors_ = nullptr;             // Of `streams_`, or none.
  std::shared_ptr<PrintedProgress> progress_;  // Or none.
  std::filesystem::path error_file_;           // A log that the worker writes itself, or empty.
  std::function<void()> on_drained_;
};

}  // namespace ddprun
