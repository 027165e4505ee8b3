// The last message of a failed run: torchrun's report, with facts that torchrun's lacks.
//
// Only formatting: the facts are gathered elsewhere. One root cause; equal other failures are
// folded into one entry; at most one hint, from a small table.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/exit_status.h"
#include "common/time.h"

namespace ddprun {

struct FailedWorker {
  std::uint32_t rank = 0;
  std::uint32_t local_rank = 0;
  std::int64_t pid = 0;
  std::string host;
  ExitStatus status;
  std::optional<std::chrono::system_clock::time_point> at;  // By its own node's clock.
  std::string error_file;                                   // Empty: it left none.
  std::string message;    // "ValueError: boom", from the error file; may be empty.
  std::string traceback;  // From the error file; may be empty.
  std::string stands;     // "w.py:4 in wait": the innermost frame of the program; may be empty.
  std::string stacks;     // File with where it stood when it hung; empty: there is none.
  bool stopped = false;  // ddprun killed it after it had left its error: the status is not its own.
};

struct FailureFacts {
  std::string program;
  std::string run_id;
  std::string summary;  // One sentence.
  int exit_code = 1;
  FailedWorker root;
  std::vector<FailedWorker> others;
  std::vector<std::string> last_lines;  // Of the root cause, on stderr.
  std::string log;                      // Where all of them are; empty: not kept.
  bool on_console = false;              // The root cause may have written to the console itself.
  std::uint32_t restarts_used = 0;
  std::uint32_t max_restarts = 0;
  std::uint32_t requeues = 0;             // How often the scheduler had started the job again.
  std::optional<Duration> ran;            // How long the root cause lived.
  std::vector<std::uint32_t> ended_well;  // Ranks of this node that ended with 0 before.
  std::string hang;          // Why the root cause, or all of them, count as hung; empty: no hang.
  bool alone = false;        // The run has no other rank.
  bool nobody_lags = false;  // A hang of all: the root cause only stands for them.
  std::string evidence;      // Directory with what else is known of it; empty: none was kept.
  bool stopped = false;      // The root cause had failed, and was stopped before it had ended.
};

// Negative for a signal, as Python and torchrun count.
int PythonCode(const ExitStatus& status);

// Lines, each with its newline; control characters made visible.
std::string FormatFailureReport(const FailureFacts& facts);

// The same for machines; one object.
std::string FailureJson(const FailureFacts& facts);

// Empty: nothing that is worth saying.
std::string HintFor(const FailureFacts& facts);

}  // namespace ddprun
