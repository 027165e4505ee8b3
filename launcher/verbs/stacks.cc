#include "launcher/verbs/stacks.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <utility>

#include "agent/watch/stack_dump.h"
#include "agent/watch/stack_taker.h"
#include "agent/watch/worker_answer.h"
#include "agent/workers/process_tree.h"
#include "common/files.h"
#include "common/log.h"
#include "proto/notify.h"

namespace ddprun {
namespace {

constexpr std::size_t kMaxProcesses = 32;  // A worker's helpers: data loaders.
constexpr std::size_t kMaxRecorded = std::size_t{16} << 20;
constexpr Duration kRecorderLimit{2'000};

void WriteRecorded(const std::string& ask, pid_t pid, const std::string& path) {
  std::string text;
  const bool whole = AskWorker(ask, pid, "collectives", kMaxRecorded,
                               std::chrono::steady_clock::now() + kRecorderLimit,
                               [&](std::string_view part) { text += part; });
  if (!whole) {
    return;
  }
  const Result<UniqueFd> file = OpenOrdinary(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (file) {
    (void)WriteAll(file->get(), text, path);
  }
}

// Where it goes: each on its own, so that one that refuses loses nothing but itself.
class Paper {
 public:
  explicit Paper(const StacksRequest& request)
      : into_(::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0)), path_(request.into) {
    if (!path_.empty()) {
      Result<UniqueFd> file = OpenOrdinary(path_, O_WRONLY | O_CREAT | O_TRUNC, 0600);
      problem_ = file ? "" : file.error().message;
      into_ = file ? *std::move(file) : UniqueFd();
    }
    Result<UniqueFd> also = OpenOrdinary(request.also, O_WRONLY | O_APPEND, 0);
    also_ = also ? *std::move(also) : UniqueFd();
  }

  void Put(std::string_view text) {
    if (into_) {
      const Result<void> put =
          WriteAll(into_.get(), text, path_.empty() ? "standard output" : path_);
      if (!put) {
        problem_ = put.error().message;
        into_ = UniqueFd();
      }
    }
    if (also_) {
      (void)WriteAll(also_.get(), text, "");
    }
  }

  const std::string& problem() const { return problem_; }

 private:
  UniqueFd into_;
  const std::string path_;
  UniqueFd also_;
  std::string problem_;  // Why not all is in it; empty: all is.
};

// 0, 1 or kFramesUnknown, of this process; its descendants may answer too, and know more: a shell
// that started Python.
int PrintTree(const StacksRequest& request, pid_t pid,
              std::chrono::steady_clock::time_point deadline, Paper& paper) {
  int code = 0;
  const std::string notify =
      request.notify.empty() ? VariableOf(pid, "DDPRUN_NOTIFY_SOCKET") : request.notify;
  std::string recorder = request.recorder;
  std::vector<pid_t> processes = DescendantsOf(pid, {});
  processes.insert(processes.begin(), pid);
  processes.resize(std::min(processes.size(), kMaxProcesses));
  for (const pid_t process : processes) {
    const auto left = std::chrono::ceil<Duration>(deadline - std::chrono::steady_clock::now());
    paper.Put("-- process " + std::to_string(process) + ":\n");
    const std::string ask = AskSocketBeside(notify, process);
    const bool listens = !ask.empty() && ::access(ask.c_str(), F_OK) == 0;
    const StacksFound found =
        DumpStacks(process, std::max(left, Duration{0}), request.live, listens ? ask : "",
                   [&](std::string_view text) { paper.Put(text); });
    if (found == StacksFound::kNoProcess) {
      paper.Put("(there is no such process)\n");
      code = process == pid ? 1 : code;
    } else if (found == StacksFound::kKernelsOnly) {
      code = process == pid ? kFramesUnknown : code;
    } else if (listens && !recorder.empty()) {
      WriteRecorded(ask, process, std::exchange(recorder, ""));
    }
  }
  return code;
}

}  // namespace

int PrintStacks(const StacksRequest& request) {
  const auto deadline = std::chrono::steady_clock::now() + request.limit;
  Paper paper(request);
  if (!request.title.empty()) {
    paper.Put("== " + request.title + "\n");
  }
  int code = 0;
  for (const std::int64_t asked : request.pids) {
    const int found = PrintTree(request, static_cast<pid_t>(asked), deadline, paper);
    code = code == 1 || found == 0 ? code : found;
  }
  const std::string told = code == kFramesUnknown ? kFramesUnknownText : "";
  if (!paper.problem().empty()) {
    std::fprintf(stderr, "ddprun: error: %s\n", InOneLine(paper.problem()).c_str());
    code = 1;
  }
  if (!request.into.empty()) {  // The caller reads it there: its exit code may be taken.
    (void)WriteAll(STDOUT_FILENO, paper.problem() + told, "standard output");
  }
  return code;
}

}  // namespace ddprun
