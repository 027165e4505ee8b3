#include "launcher/verbs/stacks.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "agent/watch/stack_dump.h"
#include "agent/watch/stack_taker.h"
#include "agent/watch/worker_answer.h"
#include "agent/workers/process_tree.h"
#include "common/files.h"

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

}  // namespace

int PrintStacks(const StacksRequest& request) {
  const auto deadline = std::chrono::steady_clock::now() + request.limit;
  UniqueFd into(::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0));
  if (!request.into.empty()) {
    Result<UniqueFd> file = OpenOrdinary(request.into, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (!file) {
      std::fprintf(stderr, "ddprun: %s\n", file.error().message.c_str());
      return 1;
    }
    into = *std::move(file);
  }
  const Result<UniqueFd> also = OpenOrdinary(request.also, O_WRONLY | O_APPEND, 0);
  const auto put = [&](std::string_view text) {
    (void)WriteAll(into.get(), text, "standard output");
    if (also) {
      (void)WriteAll(also->get(), text, request.also);
    }
  };
  if (!request.title.empty()) {
    put("== " + request.title + "\n");
  }
  int code = 0;
  for (const std::int64_t asked : request.pids) {
    const auto pid = static_cast<pid_t>(asked);
    std::vector<pid_t> processes = DescendantsOf(pid, {});
    processes.insert(processes.begin(), pid);
    processes.resize(std::min(processes.size(), kMaxProcesses));
    for (const pid_t process : processes) {
      const auto left = std::chrono::ceil<Duration>(deadline - std::chrono::steady_clock::now());
      put("-- process " + std::to_string(process) + ":\n");
      const bool own = process == pid;
      const std::string ask = !own ? "" : request.ask.empty() ? AskSocketOf(pid) : request.ask;
      const StacksFound found =
          DumpStacks(process, std::max(left, Duration{0}), request.live, ask, put);
      if (found == StacksFound::kNoProcess) {
        put("(there is no such process)\n");
        code = own ? 1 : code;
      } else if (found == StacksFound::kKernelsOnly && own && code == 0) {
        code = kFramesUnknown;
      } else if (own && !request.recorder.empty()) {
        WriteRecorded(ask, pid, request.recorder);
      }
    }
  }
  if (code == kFramesUnknown && !request.into.empty()) {
    (void)WriteAll(STDOUT_FILENO, kFramesUnknownText, "standard output");
  }
  return code;
}

}  // namespace ddprun
