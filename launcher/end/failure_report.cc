#include "launcher/end/failure_report.h"

#include <signal.h>

#include <algorithm>
#include <ctime>
#include <nlohmann/json.hpp>
#include <utility>

#include "agent/watch/timer_request.h"
#include "common/log.h"
#include "common/text.h"
#include "rendezvous/messages/describe.h"

namespace ddprun {
namespace {

constexpr std::size_t kWidth = 60;

std::string TimeText(const FailedWorker& worker) {
  if (!worker.at) {
    return "<N/A>";
  }
  const std::time_t seconds = std::chrono::system_clock::to_time_t(*worker.at);
  std::tm local{};
  ::localtime_r(&seconds, &local);
  char text[32];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%d_%H:%M:%S", &local)};
}

std::string TracebackText(const FailedWorker& worker) {
  if (!worker.traceback.empty() || !worker.message.empty()) {
    return worker.traceback.empty() ? worker.message : worker.traceback;
  }
  if (const Killed* const killed = std::get_if<Killed>(&worker.status)) {
    return "Signal " + std::to_string(killed->signal) + " (" + SignalName(killed->signal) +
           ") received by PID " + std::to_string(worker.pid);
  }
  return "<N/A> (torch.distributed.elastic's @record leaves one)";
}

// `text` after `first`; its further lines are indented as torchrun does.
void PutText(std::string& out, const std::string& first, const std::string& text) {
  out += first;
  bool more = false;
  for (const std::string& line : Split(text, '\n')) {
    out += (std::exchange(more, true) ? "  " : "") + Printable(line) + "\n";
  }
  if (text.empty()) {
    out += "\n";
  }
}

void PutWorker(std::string& out, std::size_t index, const FailedWorker& worker) {
  const Killed* const killed = std::get_if<Killed>(&worker.status);
  out += "[" + std::to_string(index) + "]:\n";
  out += "  time      : " + TimeText(worker) + "\n";
  PutText(out, "  host      : ", worker.host);
  out += "  rank      : " + std::to_string(worker.rank) +
         " (local_rank: " + std::to_string(worker.local_rank) + ")\n";
  out += "  exitcode  : " + (worker.stopped ? "<N/A>" : std::to_string(PythonCode(worker.status))) +
         " (pid: " + std::to_string(worker.pid) + ")" +
         (worker.stopped      ? "  (ddprun stopped it after its error)"
          : killed != nullptr ? "  (" + SignalName(killed->signal) + ")"
                              : "") +
         "\n";
  PutText(out, "  error_file: ", worker.error_file.empty() ? "<N/A>" : worker.error_file);
  PutText(out, "  traceback : ", TracebackText(worker));
  if (!worker.stands.empty()) {
    PutText(out, "  stands at : ", worker.stands);
  }
  if (!worker.stacks.empty()) {
    PutText(out, "  stacks    : ", worker.stacks);
  }
}

bool SameEnd(const FailedWorker& a, const FailedWorker& b) {
  return a.status == b.status && a.stopped == b.stopped && a.host == b.host &&
         a.message == b.message;
}

// Each kind of end once, with the ranks that share it.
void PutOthers(std::string& out, std::vector<FailedWorker> others) {
  if (others.empty()) {
    out += "  <NO_OTHER_FAILURES>\n";
    return;
  }
  std::sort(others.begin(), others.end(),
            [](const auto& a, const auto& b) { return a.rank < b.rank; });
  std::size_t index = 1;
  while (!others.empty()) {
    const FailedWorker first = others.front();
    std::vector<FailedWorker> rest;
    std::vector<std::uint32_t> same;
    for (FailedWorker& other : others) {
      if (other.rank == first.rank) {
        continue;
      }
      if (SameEnd(first, other)) {
        same.push_back(other.rank);
      } else {
        rest.push_back(std::move(other));
      }
    }
    PutWorker(out, index++, first);
    if (!same.empty()) {
      out += "  and " + std::to_string(same.size()) + " more like it: rank" +
             (same.size() == 1 ? " " : "s ") + RangesOf(same, ", ") + "\n";
    }
    others = std::move(rest);
  }
}

// The last lines without the traceback that the root cause's entry shows: Python prints it too,
// with frames further out, and torch names the rank before each line ("[rank1]: ").
std::vector<std::string> LinesBesidesTraceback(const FailureFacts& facts) {
  const std::vector<std::string> known = Split(facts.root.traceback, '\n');
  std::vector<std::string> lines = facts.last_lines;
  std::erase_if(lines, [&](const std::string& line) {
    const std::size_t rank = line.starts_with("[rank") ? line.find("]: ") : line.npos;
    const std::string text = line.substr(rank == line.npos ? 0 : rank + 3);
    const bool frame = text.starts_with("  File ") || text.starts_with("    ");
    return !known.empty() && (frame || std::ranges::find(known, text) != known.end());
  });
  return lines;
}

std::string Said(const FailureFacts& facts) {
  return facts.root.message + "\n" + facts.root.traceback + "\n" + Joined(facts.last_lines, "\n");
}

bool Mentions(const FailureFacts& facts, const char* what) {
  return Said(facts).find(what) != std::string::npos;
}

nlohmann::ordered_json ToJson(const FailedWorker& worker) {
  nlohmann::ordered_json json;
  json["rank"] = worker.rank;
  json["local_rank"] = worker.local_rank;
  json["host"] = worker.host;
  json["pid"] = worker.pid;
  json["exitcode"] = worker.stopped ? nlohmann::ordered_json(nullptr)
                                    : nlohmann::ordered_json(PythonCode(worker.status));
  json["ended"] = worker.stopped ? "stopped by ddprun after its error" : Describe(worker.status);
  if (worker.at) {
    json["time"] = std::chrono::duration<double>(worker.at->time_since_epoch()).count();
  }
  json["error_file"] = worker.error_file;
  json["message"] = worker.message;
  json["traceback"] = worker.traceback;
  json["stands"] = worker.stands;
  json["stacks"] = worker.stacks;
  return json;
}

}  // namespace

int PythonCode(const ExitStatus& status) {
  const Killed* const killed = std::get_if<Killed>(&status);
  return killed != nullptr ? -killed->signal : std::get<Exited>(status).code;
}

std::string HintFor(const FailureFacts& facts) {
  if (!facts.hang.empty()) {
    return std::string(facts.alone ? "the stacks show where this rank stood"
                       : facts.nobody_lags
                           ? "no rank is behind the others: look for the rank whose stack differs"
                           : "the stacks show where this rank stood while its peers "
                             "waited") +
           (facts.root.stacks.empty() ? " (--log-dir keeps the stacks)" : "") +
           "; ddprun killed the workers [workers-hang]";
  }
  const ExitStatus& status = facts.root.status;
  if (facts.root.message.starts_with(kTimerExpired)) {
    return "";  // The traceback says it all.
  }
  if (facts.root.message == kMemoryRanOut) {
    return "the cgroup's memory limit was reached (oom_kill has risen). Use fewer data loader "
           "workers, a smaller batch, or a larger limit (Slurm: --mem) [memory-limit]";
  }
  if (!facts.ended_well.empty() && SaysPeerWasLost(Said(facts))) {
    return (facts.ended_well.size() == 1 ? "rank " : "ranks ") + RangesOf(facts.ended_well, ", ") +
           " had ended with exit code 0 before, which is the probable cause. Let all ranks take "
           "equally many steps";
  }
  if (Mentions(facts, "CUDA out of memory") || Mentions(facts, "OutOfMemoryError")) {
    return "the GPU's memory ran out. Use a smaller batch, gradient accumulation, or "
           "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True. Another process may hold some of it "
           "[gpu-memory]";
  }
  if (Mentions(facts, "Address already in use")) {
    return "a port that the program itself opens is in use. Let it use MASTER_ADDR and MASTER_PORT "
           "as given (ddprun serves the store there), or another port per run [program-port]";
  }
  if (const Killed* const killed = std::get_if<Killed>(&status); killed && !facts.stopped) {
    if (killed->signal == SIGSEGV || killed->signal == SIGABRT || killed->signal == SIGBUS) {
      return std::string(killed->core_dumped ? "a core file was written"
                                             : "no core file was written (ulimit -c)") +
             ". /proc/sys/kernel/core_pattern names its place; gdb shows where the program failed "
             "[core-file]";
    }
    if (killed->signal == SIGKILL) {
      return "SIGKILL was sent by a person, the scheduler, or the kernel short of memory "
             "(dmesg) [sigkill-sent]";
    }
  }
  if (status == ExitStatus(Exited{2}) && facts.ran && *facts.ran < std::chrono::seconds(1)) {
    return "an immediate exit code 2 mostly means that the program rejects its arguments. "
           "Everything after PROGRAM is passed to it [exit-code-2]";
  }
  return "";
}

std::string FormatFailureReport(const FailureFacts& facts) {
  const std::string thick = std::string(kWidth, '=') + "\n";
  const std::string thin = std::string(kWidth, '-') + "\n";
  std::string out = thick;
  out += Printable(facts.program) + " FAILED\n" + thin + "Failures:\n";
  PutOthers(out, facts.others);
  out += thin + (facts.hang.empty() ? "Root Cause (first observed failure):\n"
                 : facts.nobody_lags && !facts.alone
                     ? "Root Cause: the workers hung; this is one of them, no rank lags:\n"
                     : "Root Cause: this worker hung:\n");
  PutWorker(out, 0, facts.root);
  out += thin;
  if (!facts.hang.empty()) {
    PutText(out, "hung      : ", facts.hang);
  }
  if (const std::vector<std::string> lines = LinesBesidesTraceback(facts); !lines.empty()) {
    out += "last lines of rank " + std::to_string(facts.root.rank) + " on stderr:\n";
    for (const std::string& line : lines) {
      out += "  " + Printable(line) + "\n";
    }
  }
  if (!facts.log.empty()) {
    PutText(out, "log       : ", facts.log);
  } else if (facts.last_lines.empty() && facts.on_console) {
    out += "log       : none; what rank " + std::to_string(facts.root.rank) +
           " printed is above (--log-dir=DIR keeps it)\n";
  }
  if (!facts.evidence.empty()) {
    PutText(out, "evidence  : ", facts.evidence);
  }
  out +=
      "restarts  : " + std::to_string(facts.restarts_used) + " of " +
      std::to_string(facts.max_restarts) + " used (--max-restarts)" +
      (facts.requeues == 0 ? ""
                           : "; the scheduler requeued the job " + std::to_string(facts.requeues) +
                                 (facts.requeues == 1 ? " time" : " times")) +
      "\n";
  if (const std::string hint = HintFor(facts); !hint.empty()) {
    out += "hint      : " + hint + "\n";
  }
  return out + thick;
}

std::string FailureJson(const FailureFacts& facts) {
  nlohmann::ordered_json json;
  json["run_id"] = facts.run_id;
  json["program"] = facts.program;
  json["exit_code"] = facts.exit_code;
  json["summary"] = facts.summary;
  json["restarts_used"] = facts.restarts_used;
  json["max_restarts"] = facts.max_restarts;
  json["requeues"] = facts.requeues;
  json["root_cause"] = ToJson(facts.root);
  json["hang"] = facts.hang.empty()
                     ? nlohmann::ordered_json(nullptr)
                     : nlohmann::ordered_json{
                           {"why", facts.hang},
                           {"rank", facts.nobody_lags ? nlohmann::ordered_json(nullptr)
                                                      : nlohmann::ordered_json(facts.root.rank)}};
  json["other_failures"] = nlohmann::ordered_json::array();
  for (const FailedWorker& other : facts.others) {
    json["other_failures"].push_back(ToJson(other));
  }
  json["last_lines"] = facts.last_lines;
  json["log"] = facts.log;
  json["evidence"] = facts.evidence;
  json["hint"] = HintFor(facts);
  // Workers' output need not be UTF-8.
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace ddprun
