#include "agent/workers/process_tree.h"

#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <sstream>

#include "common/files.h"
#include "common/text.h"

namespace ddprun {
namespace {

constexpr std::size_t kMaxProcFile = 2 << 20;

// The numeric entries of a /proc directory.
std::vector<pid_t> NumbersIn(const std::string& directory) {
  std::vector<pid_t> numbers;
  for (const std::filesystem::path& entry : EntriesOf(directory)) {
    if (const auto number = ParseNumber<pid_t>(entry.filename().native())) {
      numbers.push_back(*number);
    }
  }
  return numbers;
}

// 0: gone.
pid_t ParentOf(pid_t pid) {
  const std::vector<std::uint64_t> stat = StatOf("/proc/" + std::to_string(pid));
  return stat.empty() ? 0 : static_cast<pid_t>(stat.front());
}

// For kernels built without CONFIG_PROC_CHILDREN.
std::vector<pid_t> ChildrenByScan(pid_t parent) {
  std::vector<pid_t> children;
  for (const pid_t pid : NumbersIn("/proc")) {
    if (ParentOf(pid) == parent) {
      children.push_back(pid);
    }
  }
  return children;
}

// A checked signal: the pidfd pins the process, then the rest is asked. False: it is not meant.
bool SignalMember(pid_t pid, Within within, const std::set<pid_t>& leaders,
                  const std::vector<int>& signals, const BeforeSignal& before) {
  const UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  const pid_t leader = !pidfd ? -1 : within == Within::kSession ? ::getsid(pid) : ::getpgid(pid);
  if (pid == leader || !leaders.contains(leader) || TidiesUp(pid)) {
    return false;
  }
  if (signals.front() == SIGKILL && PurposeOf(pid) != Purpose::kOther) {
    return true;
  }
  if (before) {
    before(pid);
  }
  for (const int signal : signals) {
    ::syscall(SYS_pidfd_send_signal, pidfd.get(), signal, nullptr, 0);
  }
  return true;
}

// Of a direct child: only this process reaps it, so its id is its own.
bool IsMeant(pid_t child, Reach reach) {
  return reach == Reach::kEverybody || ::getsid(child) != ::getsid(0);
}

// As mostly at a run's end: /proc need not be read.
bool HasNoChild() {
  siginfo_t child{};
  return ::waitid(P_ALL, 0, &child, WEXITED | WNOHANG | WNOWAIT) != 0 && errno == ECHILD;
}

}  // namespace

std::string ReadProcFile(pid_t pid, const char* name) {
  const Result<std::string> text =
      ReadFile("/proc/" + std::to_string(pid) + "/" + name, kMaxProcFile);
  return text ? *text : "";
}

std::string VariableOf(pid_t pid, std::string_view name) {
  const std::string environment = '\0' + ReadProcFile(pid, "environ");
  const std::string begin = '\0' + std::string(name) + '=';
  const std::size_t at = environment.find(begin);
  return at == std::string::npos ? "" : environment.c_str() + at + begin.size();
}

std::optional<std::uint64_t> NumberInProcFile(pid_t pid, const char* name, const std::string& label,
                                              int base) {
  const std::string text = ReadProcFile(pid, name);
  const std::size_t at = text.find(label);
  return at == std::string::npos ? std::nullopt
                                 : std::optional<std::uint64_t>(std::strtoull(
                                       text.c_str() + at + label.size(), nullptr, base));
}

std::optional<bool> Catches(pid_t pid, int signal) {
  const auto caught = NumberInProcFile(pid, "status", "\nSigCgt:", 16);
  const auto blocked = NumberInProcFile(pid, "status", "\nSigBlk:", 16);
  return caught && blocked ? std::optional(((*caught | *blocked) >> (signal - 1) & 1) != 0)
                           : std::nullopt;
}

std::vector<std::uint64_t> StatOf(const std::filesystem::path& task) {
  constexpr std::size_t kLastOfStat = 52;
  const Result<std::string> text = ReadFile(task / "stat", kMaxProcFile);
  // "pid (any name) state ppid ..."
  const std::size_t state = text ? text->rfind(") ") : std::string::npos;
  if (state == std::string::npos) {
    return {};
  }
  std::istringstream fields(text->substr(state + std::strlen(") R")));
  std::vector<std::uint64_t> found(std::istream_iterator<std::uint64_t>(fields), {});
  found.resize(kLastOfStat - kFirstOfStat + 1);
  return found;
}

std::vector<pid_t> ChildrenOf(pid_t pid) {
  const std::string tasks = "/proc/" + std::to_string(pid) + "/task";
  std::vector<pid_t> children;
  bool listed = false;
  for (const pid_t task : NumbersIn(tasks)) {
    const Result<std::string> text =
        ReadFile(tasks + "/" + std::to_string(task) + "/children", kMaxProcFile);
    if (!text) {
      continue;
    }
    listed = true;
    for (const std::string& number : Split(*text, ' ')) {
      if (const auto child = ParseNumber<pid_t>(number)) {  // Nothing follows the last space.
        children.push_back(*child);
      }
    }
  }
  static const bool kernel_lists_children = ::access("/proc/thread-self/children", R_OK) == 0;
  return listed || kernel_lists_children ? children : ChildrenByScan(pid);
}

std::vector<pid_t> DescendantsOf(pid_t pid, const std::set<pid_t>& skipped) {
  std::vector<pid_t> found;
  std::set<pid_t> seen = skipped;
  const auto add_children = [&](pid_t parent) {
    for (const pid_t child : ChildrenOf(parent)) {
      if (seen.insert(child).second) {
        found.push_back(child);
      }
    }
  };
  add_children(pid);
  for (std::size_t next = 0; next < found.size(); ++next) {
    add_children(found[next]);
  }
  return found;
}

bool DescendsFrom(pid_t pid, pid_t ancestor) {
  if (::getsid(pid) == ancestor) {
    return true;
  }
  pid_t parent = pid;
  while (parent > 1 && parent != ancestor) {
    parent = ParentOf(parent);
  }
  return parent == ancestor && pid != ancestor;
}

Purpose PurposeOf(pid_t pid) {
  std::string line = ReadProcFile(pid, "cmdline");
  if (line.empty()) {
    // If its first thread has ended, only the others have its command line.
    for (const pid_t task : NumbersIn("/proc/" + std::to_string(pid) + "/task")) {
      line += ReadProcFile(task, "cmdline");
    }
  }
  if (line.empty()) {
    return Purpose::kUnknown;
  }
  // "from multiprocessing.resource_tracker import main;main(5)", the argument of python -c.
  if (line.find("resource_tracker import main") != std::string::npos) {
    return Purpose::kTidySoon;
  }
  const std::string_view program = std::string_view(line).substr(0, line.find('\0'));
  return program.substr(program.rfind('/') + 1) == "torch_shm_manager" ? Purpose::kTidyLater
                                                                       : Purpose::kOther;
}

bool TidiesUp(pid_t pid) {
  const Purpose purpose = PurposeOf(pid);
  return purpose == Purpose::kTidySoon || purpose == Purpose::kTidyLater;
}

std::size_t SignalMembers(Within within, const std::set<pid_t>& leaders,
                          const std::vector<pid_t>& descendants, const std::vector<int>& signals,
                          const BeforeSignal& before) {
  std::size_t count = 0;
  for (const pid_t pid : descendants) {
    count += SignalMember(pid, within, leaders, signals, before) ? 1 : 0;
  }
  return count;
}

std::vector<pid_t> ReapChildren(const std::set<pid_t>& spared, Reach reach) {
  std::vector<pid_t> living;
  for (const pid_t pid : HasNoChild() ? std::vector<pid_t>() : ChildrenOf(::getpid())) {
    if (IsMeant(pid, reach) && !spared.contains(pid) && ::waitpid(pid, nullptr, WNOHANG) == 0) {
      living.push_back(pid);
    }
  }
  return living;
}

std::vector<pid_t> SweepChildren(const std::set<pid_t>& spared, Reach reach,
                                 const BeforeSignal& before) {
  std::vector<pid_t> living = ReapChildren(spared, reach);
  std::erase_if(living, TidiesUp);
  for (const pid_t pid : living) {
    if (PurposeOf(pid) != Purpose::kOther) {
      continue;
    }
    if (before) {
      before(pid);
    }
    ::kill(pid, SIGKILL);
  }
  return living;
}

bool NothingIsLeft(Reach reach, const BeforeSignal& before, const std::set<pid_t>& spared) {
  if (!SweepChildren(spared, reach, before).empty()) {
    return false;
  }
  if (HasNoChild()) {
    return true;
  }
  // The kernel's answer says nothing where a child lives that no sweep means.
  const std::vector<pid_t> children = ChildrenOf(::getpid());
  return std::any_of(children.begin(), children.end(),
                     [&](pid_t child) {
                       return !IsMeant(child, reach) || spared.contains(child) || TidiesUp(child);
                     }) &&
         SweepChildren(spared, reach, before).empty();
}

}  // namespace ddprun
