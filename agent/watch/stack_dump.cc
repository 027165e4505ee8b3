#include "agent/watch/stack_dump.h"

#include <cxxabi.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "agent/watch/worker_answer.h"
#include "agent/workers/child_run.h"
#include "common/files.h"
#include "common/text.h"

namespace ddprun {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kMaxOfProc = 64 * 1024;
const std::string kKernelsView = "-- the kernel's view:\n";  // After the program's own frames.

std::string WithoutEnd(std::string text) {
  text.erase(text.find_last_not_of(" \n") + 1);
  return text;
}

// Empty where the kernel does not say, or not to us.
std::string ProcFile(const fs::path& path) {
  const Result<std::string> text = ReadFile(path, kMaxOfProc);
  return text ? WithoutEnd(*text) : "";
}

// A worker gives its threads their names: no line may begin within one.
std::string NameOf(const fs::path& task) {
  std::string name = ProcFile(task / "comm");
  std::ranges::replace_if(
      name, [](char c) { return c == '\n' || c == '\r' || c == ':'; }, '?');
  return name;
}

std::string StateOf(const fs::path& task) {
  for (const std::string& line : Split(ProcFile(task / "status"), '\n')) {
    if (line.starts_with("State:")) {
      return line.substr(line.find_first_not_of(" \t", 6));
    }
  }
  return "gone";
}

std::string KernelView(const fs::path& task) {
  std::string text =
      "thread " + task.filename().native() + " (" + NameOf(task) + "): state " + StateOf(task);
  const std::string waits_in = ProcFile(task / "wchan");
  if (!waits_in.empty() && waits_in != "0") {
    text += ", waits in " + waits_in;
  }
  if (const std::string call = ProcFile(task / "syscall"); !call.empty()) {
    text += ", system call " + call;
  }
  text += "\n";
  for (const std::string& frame : Split(ProcFile(task / "stack"), '\n')) {
    text += "    " + frame + "\n";
  }
  return text;
}

// Readable after SIGTERM, by which the caller says that it does not want the stacks of a live
// worker any more: the worker must be released before this process ends.
UniqueFd HearGivenUp() {
  sigset_t term;
  ::sigemptyset(&term);
  ::sigaddset(&term, SIGTERM);
  ::sigprocmask(SIG_BLOCK, &term, nullptr);
  return UniqueFd(::signalfd(-1, &term, SFD_CLOEXEC | SFD_NONBLOCK));
}

bool IsGivenUp(const UniqueFd& given_up) {
  pollfd there{given_up.get(), POLLIN, 0};
  return ::poll(&there, 1, 0) == 1;
}

// Takes what the tool printed, at most kMaxToolBytes; the tool and all that it started are gone
// afterwards.
bool RunTool(const std::vector<std::string>& command, Clock::time_point deadline,
             const UniqueFd& given_up, const std::function<void(std::string_view)>& put) {
  WorkerSpec spec;
  spec.helper = true;
  spec.command = {command[0], command};
  spec.environment = ProcessEnvironment();
  std::size_t taken = 0;
  const auto status =
      ChildRun().Run(spec, {.limit = std::chrono::ceil<Duration>(deadline - Clock::now()),
                            .both = true,
                            .ends = given_up.get(),
                            .output = [&](int, std::string_view bytes) {
                              put(bytes);
                              taken += bytes.size();
                              return taken < kMaxToolBytes;
                            }});
  const std::string name = fs::path(command[0]).filename().native();
  const bool whole = taken < kMaxToolBytes;
  if (!whole) {
    put("\n(" + name + " prints more than " + std::to_string(kMaxToolBytes >> 10) +
        " KiB: stopped)\n");
  } else if (status && !*status) {
    put("(" + name + (IsGivenUp(given_up) ? " was given up)" : kToolTookTooLong) + "\n");
  }
  return status && (!whole || (*status && Succeeded(**status)));
}

// "#1  0x7f in _ZN5torch3RunEv () from x.so" as "#1  0x7f in torch::Run() () from x.so". A name
// that is too long, or becomes so, stays as it is.
std::string DemangledFrame(const std::string& line) {
  constexpr std::size_t kMostOfName = 8 * 1024;
  const std::size_t at = line.find(" _Z");
  if (!line.starts_with('#') || at == line.npos) {
    return line;
  }
  const std::size_t end = std::min(line.find(' ', at + 1), line.size());
  const std::string name = line.substr(at + 1, std::min(end - at - 1, kMostOfName));
  const std::unique_ptr<char, void (*)(void*)> plain(
      abi::__cxa_demangle(name.c_str(), nullptr, nullptr, nullptr), std::free);
  const bool fits = plain && std::string_view(plain.get()).size() <= kMostOfName;
  return fits ? line.substr(0, at + 1) + plain.get() + line.substr(end) : line;
}

// Passes on what gdb prints, by lines, with names as people write them.
class DemangledLines {
 public:
  explicit DemangledLines(const std::function<void(std::string_view)>& put) : put_(put) {}

  void Put(std::string_view text) {
    open_ += text;
    std::size_t begin = 0;
    for (std::size_t end = open_.find('\n'); end != open_.npos; end = open_.find('\n', begin)) {
      put_(DemangledFrame(open_.substr(begin, end - begin)) + "\n");
      begin = end + 1;
    }
    open_.erase(0, begin);
  }
  void End() {
    if (!open_.empty()) {
      put_(std::exchange(open_, {}) + "\n");
    }
  }

 private:
  const std::function<void(std::string_view)>& put_;
  std::string open_;  // A line without its end.
};

bool IsPython(pid_t pid) {
  std::error_code error;
  const fs::path exe = fs::read_symlink("/proc/" + std::to_string(pid) + "/exe", error);
  return !error && exe.filename().native().starts_with("python");
}

// 'R', 'S', 'D', 'T', 'Z', ...; 0: gone.
char StateLetter(const fs::path& task) {
  const std::string state = StateOf(task);
  return state == "gone" || state.empty() ? '\0' : state.front();
}

const std::string kInTheKernel = "it is in an uninterruptible wait in the kernel";

// Why no tool may hold a process that is to continue; "": it may.
std::string WhyHandsOff(const std::vector<fs::path>& threads) {
  for (const fs::path& thread : threads) {
    switch (StateLetter(thread)) {
      case 'T':
      case 't':
        return "it is stopped, or a debugger holds it";
      case 'D':
        return kInTheKernel;
      case 'Z':
      case 'X':
        return "it is dying";
      default:
        break;
    }
  }
  return "";
}

// A tool of an operator's that was given up may still hold it.
void WaitUntilUntraced(const std::vector<fs::path>& threads) {
  constexpr std::chrono::seconds kMost{3};
  constexpr std::chrono::milliseconds kLook{50};
  const Clock::time_point end = Clock::now() + kMost;
  const auto traced = [](const fs::path& thread) { return StateLetter(thread) == 't'; };
  while (Clock::now() < end && std::ranges::any_of(threads, traced)) {
    std::this_thread::sleep_for(kLook);
  }
}

// The program answers itself, from a thread of its own: that delays nothing, and the answer comes
// whole or not at all.
bool TellsItself(pid_t pid, const std::string& ask, Duration limit,
                 const std::function<void(std::string_view)>& put) {
  constexpr Duration kPatience{
      2'000};  // A busy machine: a second is too short for a switch of threads.
  std::string text;
  const bool whole =
      AskWorker(ask, pid, "stacks", kMaxToolBytes, Clock::now() + std::min(limit / 2, kPatience),
                [&](std::string_view part) { text += part; });
  if (whole) {
    put("-- reported by itself:\n" + text);
  } else if (!ask.empty() && ::access(ask.c_str(), F_OK) == 0) {
    put("(its Python did not answer in time: something holds its interpreter)\n");
  }
  return whole;
}

// As RunTool. A tool that was killed may have left the stop behind with which it took hold, or one
// that is to come; SIGCONT ends both.
bool Hold(pid_t pid, const std::vector<fs::path>& threads, bool live,
          const std::vector<std::string>& command, Clock::time_point deadline,
          const UniqueFd& given_up, const std::function<void(std::string_view)>& put) {
  const bool told = RunTool(command, deadline, given_up, put);
  if (live && (!told || !WhyHandsOff(threads).empty())) {
    ::kill(pid, SIGCONT);
  }
  return told;
}

}  // namespace

StacksFound DumpStacks(pid_t pid, Duration limit, bool live, const std::string& ask,
                       const std::function<void(std::string_view)>& put) {
  const Clock::time_point deadline = Clock::now() + limit;
  const std::vector<fs::path> threads =
      EntriesOf("/proc/" + std::to_string(pid) + "/task", kMaxThreads);
  if (threads.empty()) {
    return StacksFound::kNoProcess;
  }
  const UniqueFd given_up = live ? HearGivenUp() : UniqueFd();
  if (!live) {
    WaitUntilUntraced(threads);
  }
  const std::string hands_off = WhyHandsOff(threads);
  // Where one thread waits for a disk another one can answer.
  const bool told_itself =
      (hands_off.empty() || hands_off == kInTheKernel) && TellsItself(pid, ask, limit, put);
  // Of this moment: a tool changes it.
  std::string kernels;
  for (const fs::path& thread : threads) {
    kernels += KernelView(thread);
  }
  if (told_itself) {
    put(kKernelsView + kernels);
    return StacksFound::kAll;
  }
  if (live && !hands_off.empty()) {
    put(kernels + "(no debugger is used: " + hands_off + ")\n");
    return StacksFound::kAll;
  }
  const bool python = IsPython(pid);
  const std::string name = python ? "py-spy" : "gdb";
  const auto tool = FindProgram(name, GetProcessEnv);
  if (!tool || IsGivenUp(given_up)) {
    put(kernels + "(" + name + kToolIsMissing + "\n");
    return python && hands_off.empty() ? StacksFound::kKernelsOnly : StacksFound::kAll;
  }
  ::unsetenv("DEBUGINFOD_URLS");  // gdb would ask a network for symbols.
  const std::string number = std::to_string(pid);
  put("-- " + name + ":\n");
  // gdb would demangle the names of all libraries before it begins, and takes several times as
  // long.
  DemangledLines lines(put);
  const bool told =
      Hold(pid, threads, live,
           python ? std::vector<std::string>{*tool, "dump", "--pid", number}
                  : std::vector<std::string>{*tool, "-nx", "-nw", "-batch", "-p", number, "-iex",
                                             "set demangle-style none", "-ex",
                                             "thread apply all -ascending backtrace 60"},
           deadline, given_up, [&](std::string_view text) { lines.Put(text); });
  lines.End();
  put(kKernelsView + kernels);
  return python && !told && hands_off.empty() ? StacksFound::kKernelsOnly : StacksFound::kAll;
}

}  // namespace ddprun
