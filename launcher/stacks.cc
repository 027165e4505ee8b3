#include "launcher/stacks.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "agent/process_tree.h"
#include "agent/stack_dump.h"
#include "common/files.h"

namespace ddprun {
namespace {

constexpr std::size_t kMaxProcesses = 32;  // A worker's helpers: data loaders.

}  // namespace

int PrintStacks(const StacksRequest& request) {
  const auto deadline = std::chrono::steady_clock::now() + request.limit;
  const UniqueFd also(
      request.also.empty() ? -1 : ::open(request.also.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
  const auto put = [&](std::string_view text) {
    (void)WriteAll(STDOUT_FILENO, text, "standard output");
    if (also) {
      (void)WriteAll(also.get(), text, request.also);
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
      if (!DumpStacks(process, std::max(left, Duration{0}), put)) {
        put("(there is no such process)\n");
        code = process == pid ? 1 : code;
      }
    }
  }
  return code;
}

}  // namespace ddprun
