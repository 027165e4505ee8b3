#include "launcher/hosts/node_front.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <optional>

#include "agent/guard_signals.h"
#include "agent/last_sweep.h"
#include "agent/workers/wait_status.h"
#include "common/exit_code.h"
#include "common/files.h"
#include "common/log.h"
#include "launcher/environment/launch_place.h"
#include "launcher/hosts/control_stream.h"

namespace ddprun {
namespace {

constexpr Duration kStopGrace{500};  // Between SIGTERM and SIGKILL to the guard.
constexpr Duration kAgentTidiesUp{1'000};
constexpr Duration kRestLimit{5'000};

using SteadyTime = std::chrono::steady_clock::time_point;

// For poll(2).
int MillisecondsTo(SteadyTime end) {
  const auto left = std::chrono::ceil<Duration>(end - std::chrono::steady_clock::now());
  return static_cast<int>(std::max<Duration::rep>(0, left.count()));
}

// The launcher, as this process hears it.
class LauncherEar {
 public:
  // -1: it has gone.
  int fd() const { return gone_ ? -1 : STDIN_FILENO; }
  bool gone() const { return gone_; }
  // -1: for ever.
  int MillisecondsLeft() const { return gone_ ? -1 : MillisecondsTo(heard_ + kSilenceLimit); }
  // After poll(2).
  std::string Read(short events) {
    char piece[4096];
    const ssize_t got = gone_ || events == 0 ? 0 : ::read(STDIN_FILENO, piece, sizeof piece);
    if (got > 0) {
      heard_ = std::chrono::steady_clock::now();
      return {piece, static_cast<std::size_t>(got)};
    }
    const bool nothing = events == 0 || (got < 0 && (errno == EAGAIN || errno == EINTR));
    gone_ = gone_ || !nothing || MillisecondsLeft() == 0;
    return "";
  }

 private:
  SteadyTime heard_ = std::chrono::steady_clock::now();
  bool gone_ = false;
};

[[noreturn]] void RefuseOrder(const std::string& word, const std::string& why) {
  Announce(LogLevel::kError, why);
  (void)WriteAll(STDOUT_FILENO, EndMark(word, kExitUsage), "standard output");
  ::_exit(kExitUsage);
}

void RunCopy(NodeOrder& order, const std::string& copy) {
  const auto end_of_flags = std::ranges::find(order.args, "--");
  if (order.args.end() - end_of_flags < 2) {
    RefuseOrder(order.word, "the launcher's order has no program");
  }
  *(end_of_flags + 1) = copy;
}

// With --copy a host may lack it: the shell has begun in the user's home directory.
void EnterDirectory(const NodeOrder& order, bool may_lack) {
  if (::chdir(order.directory.c_str()) == 0) {
    return;
  }
  const bool lacks = may_lack && errno == ENOENT;
  const std::string what =
      SystemError("enter the launcher's directory", order.directory, errno).message +
      " on this host";
  if (!lacks) {
    RefuseOrder(order.word, what + " (--hosts)");
  }
  std::error_code ignored;
  std::fprintf(stderr, "%s %s; its workers start in '%s' (--copy)\n",
               Heading(LogLevel::kWarning, "ddprun").c_str(), Printable(what).c_str(),
               Printable(std::filesystem::current_path(ignored).native()).c_str());
}

// `after`: the bytes that have come behind the order.
NodeOrder AwaitOrder(LauncherEar& launcher, std::string& after) {
  OrderReader reader;
  while (!launcher.gone()) {
    pollfd stdin_event{launcher.fd(), POLLIN, 0};
    ::poll(&stdin_event, 1, launcher.MillisecondsLeft());
    const Result<bool> whole = reader.Feed(launcher.Read(stdin_event.revents));
    if (!whole) {
      RefuseOrder("", whole.error().message);
    }
    if (*whole) {
      after = reader.rest();
      return reader.order();
    }
  }
  ::_exit(kExitUnavailable);
}

void BecomeLaunch(const NodeOrder& order, const sigset_t& mask, pid_t front) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != front) {
    ::_exit(kExitUnavailable);
  }
  const UniqueFd nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  ::dup2(nothing.get(), STDIN_FILENO);
  ::setenv(kLaunchPlace, order.place.c_str(), 1);
  if (order.token.empty()) {
    ::unsetenv("DDPRUN_TOKEN");
  } else {
    ::setenv("DDPRUN_TOKEN", order.token.c_str(), 1);
  }
  ::sigprocmask(SIG_SETMASK, &mask, nullptr);
}

void PassToGuard(pid_t guard, int signal) {
  if (std::ranges::find(kPassedOn, signal) != kPassedOn.end()) {
    ::kill(guard, signal);
  }
}

// The guard was killed: its agent ends what is left, or it is ended here.
void EndTheRest() {
  const auto end = std::chrono::steady_clock::now() + kAgentTidiesUp;
  while (std::chrono::steady_clock::now() < end) {
    if (::waitpid(-1, nullptr, WNOHANG) < 0 && errno == ECHILD) {
      return;
    }
    ::poll(nullptr, 0, 5);
  }
  KillAllDescendants(kRestLimit);
}

// Until the guard has ended, of which SIGCHLD tells: its wait status. When the launcher has gone,
// SIGTERM comes first: a guard whose agent is still being set up ends both and leaves no directory.
int FollowLauncher(LauncherEar& launcher, pid_t guard, const UniqueFd& signals) {
  std::optional<SteadyTime> kill_at;
  int status = 0;
  while (::waitpid(guard, &status, WNOHANG) == 0) {
    std::array<pollfd, 2> events = {pollfd{signals.get(), POLLIN, 0},
                                    pollfd{launcher.fd(), POLLIN, 0}};
    ::poll(events.data(), events.size(),
           kill_at ? MillisecondsTo(*kill_at) : launcher.MillisecondsLeft());
    signalfd_siginfo info{};
    while (::read(signals.get(), &info, sizeof info) == sizeof info) {
      PassToGuard(guard, static_cast<int>(info.ssi_signo));
    }
    for (const char byte : launcher.Read(events[1].revents)) {
      PassToGuard(guard, byte);
    }
    const auto now = std::chrono::steady_clock::now();
    if (kill_at && *kill_at <= now) {
      ::kill(guard, SIGKILL);
      kill_at = now + kStopGrace;
    } else if (launcher.gone() && !kill_at) {
      ::kill(guard, SIGTERM);
      kill_at = now + kStopGrace;
    }
  }
  return status;
}

// For as long as the launcher is there: it may have to wait for its own reader first.
void SayEnd(LauncherEar& launcher, const std::string& mark) {
  while (!launcher.gone()) {
    std::array<pollfd, 2> events = {pollfd{STDOUT_FILENO, POLLOUT, 0},
                                    pollfd{launcher.fd(), POLLIN, 0}};
    ::poll(events.data(), events.size(), launcher.MillisecondsLeft());
    launcher.Read(events[1].revents);
    if (events[0].revents != 0) {
      (void)WriteAll(STDOUT_FILENO, mark, "standard output");
      return;
    }
  }
}

}  // namespace

std::vector<std::string> TakeOrder(const std::optional<std::string>& copy) {
  sigset_t signals = SignalsOfTheGuard();
  sigset_t mask;
  ::sigaddset(&signals, SIGPIPE);  // Writing to a launcher that is gone must not end this process.
  ::sigprocmask(SIG_BLOCK, &signals, &mask);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  (void)WriteAll(STDOUT_FILENO, Greeting(), "standard output");
  LauncherEar launcher;
  std::string after;
  NodeOrder order = AwaitOrder(launcher, after);
  EnterDirectory(order, copy.has_value());
  if (copy && !copy->empty()) {
    RunCopy(order, *copy);
  }
  const pid_t front = ::getpid();
  const pid_t guard = ::fork();
  if (guard < 0) {
    RefuseOrder(order.word, SystemError("start", "the launch", errno).message);
  }
  if (guard == 0) {
    BecomeLaunch(order, mask, front);
    return order.args;
  }
  const UniqueFd arrived(::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
  for (const char byte : after) {
    PassToGuard(guard, byte);
  }
  const int status = FollowLauncher(launcher, guard, arrived);
  if (WIFSIGNALED(status)) {
    EndTheRest();
  }
  const int code = ShellCode(DecodeWaitStatus(status));
  SayEnd(launcher, EndMark(order.word, code));
  ::_exit(code);
}

}  // namespace ddprun
