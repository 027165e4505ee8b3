#include "agent/kept_launch.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/personality.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string_view>

#include "common/files.h"
#include "common/text.h"

namespace ddprun {
namespace {

constexpr std::size_t kMostBytes = 64 * 1024;

// Of /proc/self/status.
constexpr std::array<std::string_view, 13> kInherited = {"Umask:",
                                                         "Uid:",
                                                         "Gid:",
                                                         "Groups:",
                                                         "CapInh:",
                                                         "CapPrm:",
                                                         "CapEff",
                                                         "CapBnd",
                                                         "CapAmb",
                                                         "NoNewPrivs:",
                                                         "Seccomp",
                                                         "Cpus_allowed_list:",
                                                         "Mems_allowed_list:"};

bool ReceiveGo(int socket) {
  char go = 0;
  ssize_t got = -1;
  do {
    got = ::recv(socket, &go, 1, 0);
  } while (got < 0 && errno == EINTR);
  return got == 1 && go == 'g';
}

}  // namespace

KeptLaunch& OwnKeptLaunch() {
  static KeptLaunch launch;
  return launch;
}

void BeginKept() {
  const char* const text = std::getenv(kKeptVariable);
  std::istringstream words(text == nullptr ? "" : text);
  ::unsetenv(kKeptVariable);
  std::string role;
  std::array<int, 4> numbers = {-1, -1, -1, -1};
  words >> role;
  for (int& number : numbers) {
    words >> number;
  }
  const bool guards = role == "guard";
  if (!guards && role != "agent") {
    return;
  }
  KeptLaunch& own = OwnKeptLaunch();
  own.link = UniqueFd(numbers[0]);
  if (guards) {
    own.role = KeptLaunch::Role::kGuard;
    own.connection = UniqueFd(numbers[1]);
    own.agent = numbers[2];
    const std::string state = InheritedState();
    (void)!::send(own.connection.get(), state.data(), state.size(), MSG_NOSIGNAL);
  } else {
    own.role = KeptLaunch::Role::kAgent;
    own.preload = std::make_shared<GivenPreload>(
        GivenPreload{numbers[1], UniqueFd(numbers[2]), UniqueFd(numbers[3])});
  }
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (i == 0 || guards == (i == 1)) {  // The others are pids.
      ::fcntl(numbers[i], F_SETFD, FD_CLOEXEC);
    }
  }
  if (!ReceiveGo(guards ? own.connection.get() : own.link.get())) {
    ::_exit(0);
  }
}

void EndKept(int code) {
  const KeptLaunch& own = OwnKeptLaunch();
  if (own.connection) {
    const char byte = static_cast<char>(code);
    (void)!::send(own.connection.get(), &byte, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
  }
}

std::string InheritedState() {
  std::string state;
  const auto status = ReadFile("/proc/self/status", kMostBytes);
  if (!status) {
    return "";
  }
  for (const std::string& line : Split(*status, '\n')) {
    for (const std::string_view name : kInherited) {
      state += line.starts_with(name) ? line + "\n" : "";
    }
  }
  for (const char* const file :
       {"/proc/self/limits", "/proc/self/cgroup", "/proc/self/oom_score_adj",
        "/proc/self/attr/current", "/proc/self/coredump_filter", "/proc/self/timerslack_ns"}) {
    const Result<std::string> text = ReadFile(file, kMostBytes);
    state += (text ? *text : "") + "\n";
  }
  std::error_code error;
  for (const std::filesystem::path& space : EntriesOf("/proc/self/ns")) {
    state += std::filesystem::read_symlink(space, error).native() + "\n";
  }
  int policy = 0;
  std::array<unsigned long, 16> nodes{};  // As many as a kernel has nodes.
  ::syscall(SYS_get_mempolicy, &policy, nodes.data(), 8 * sizeof nodes, nullptr, 0);
  state += std::to_string(policy) + " ";
  for (const unsigned long word : nodes) {
    state += std::to_string(word) + " ";
  }
  sched_param priority{};
  ::sched_getparam(0, &priority);
  struct stat root {};
  ::stat("/", &root);
  constexpr int kProcess = 1;  // IOPRIO_WHO_PROCESS
  for (const long number :
       {static_cast<long>(::getpriority(PRIO_PROCESS, 0)),
        static_cast<long>(::sched_getscheduler(0)), static_cast<long>(priority.sched_priority),
        ::syscall(SYS_ioprio_get, kProcess, 0), static_cast<long>(::personality(0xffffffff)),
        static_cast<long>(root.st_dev), static_cast<long>(root.st_ino)}) {
    state += std::to_string(number) + " ";
  }
  return state;
}

}  // namespace ddprun
