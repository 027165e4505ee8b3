#include "agent/guard.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "agent/guard_signals.h"
#include "agent/kept_launch.h"
#include "agent/last_sweep.h"
#include "agent/limited_child.h"
#include "agent/workers/wait_status.h"
#include "agent/workers/worker_launcher.h"
#include "common/exit_code.h"
#include "common/exit_status.h"
#include "common/files.h"
#include "common/log.h"

namespace ddprun {
namespace {

constexpr std::size_t kMaxHeld = 16;  // Descriptors kept for the agent.
constexpr char kWatching = 'w';       // From the agent: it watches for signals now.
constexpr char kUsed = 'u';           // The directory is not to be removed any more.
constexpr char kHold = '\0';          // Sent with a descriptor.
constexpr char kAtDeath = 'd';        // Followed by a text.
constexpr char kSpare = 'k';          // Followed by a pid.
constexpr int kLookAgainMs = 50;
constexpr int kSayAfterRounds = 10'000 / kLookAgainMs;
constexpr Duration kAfterDeathLimit{2'000};
constexpr Duration kTimeToTidyUp{5'000};  // torch_shm_manager waits 2 s for another client.

struct Guard {
  pid_t agent = 0;
  UniqueFd signals;  // A signalfd of SignalsOfTheGuard.
  SignalRequests requests;
  UniqueFd link;
  UniqueFd connection;  // Of a kept launch: to ddprun (kept_launch.h).
  std::vector<UniqueFd> held;
  std::set<pid_t> spared;
  std::string at_death;   // The text of LeaveAtDeath; empty: none.
  std::string directory;  // Absolute; to be removed at the end. Empty: none.
  bool watching = false;  // The agent watches for signals; before that a signal kills it.
  int ended_by = 0;
};

// In a process with threads, each growth of the descriptor table waits for all processors (an RCU
// grace period of some 7 ms). So the table is made large enough for some hundred workers before.
void WidenDescriptorTable() {
  constexpr int kHighest = 4095;
  for (int highest = kHighest; highest > 64; highest /= 2) {
    if (const UniqueFd high(::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, highest)); high) {
      return;
    }
  }
}

[[noreturn]] void BeAgent(const std::function<int(GuardLink)>& agent_main, UniqueFd link,
                          const sigset_t& mask, pid_t guard) {
  ::setpgid(0, 0);                     // A terminal's Ctrl-C and Ctrl-Z are the guard's alone.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // Until it notices the guard's end itself (Watch).
  if (::getppid() != guard) {
    ::_exit(1);
  }
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  for (const int signal : kPassedOn) {
    ::signal(signal, SIG_IGN);
  }
  for (const int signal : {SIGTTOU, SIGTTIN, SIGTSTP, SIGPIPE, SIGXFSZ}) {
    ::signal(signal, SIG_IGN);
  }
  ::sigprocmask(SIG_SETMASK, &mask, nullptr);
  WidenDescriptorTable();
  const int code = agent_main(GuardLink(std::move(link)));
  std::fflush(nullptr);
  // Not exit(): threads of libraries may still use static objects, which exit() would destroy.
  ::_exit(code);
}

// In the guard it returns once there is an agent.
Result<void> HaveAgent(Guard& guard, const std::function<int(GuardLink)>& agent_main,
                       const sigset_t& mask) {
  KeptLaunch& kept = OwnKeptLaunch();
  if (kept.role == KeptLaunch::Role::kAgent) {
    BeAgent(agent_main, std::move(kept.link), mask, ::getppid());
  }
  if (kept.role == KeptLaunch::Role::kGuard) {
    guard.link = std::move(kept.link);
    guard.connection = UniqueFd(::fcntl(kept.connection.get(), F_DUPFD_CLOEXEC, 3));
    guard.agent = kept.agent;
    (void)!::send(guard.link.get(), "g", 1, MSG_NOSIGNAL);
    return {};
  }
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return SystemError("make", "a socket pair", errno);
  }
  guard.link = UniqueFd(ends[0]);
  UniqueFd agent_end(ends[1]);
  std::fflush(nullptr);
  const pid_t self = ::getpid();
  guard.agent = ::fork();
  if (guard.agent < 0) {
    const int error_number = errno;
    return Error{ErrorKind::kSystem, std::string("cannot start the agent: ") +
                                         std::strerror(error_number) +
                                         LimitOfProcesses(error_number)};
  }
  if (guard.agent == 0) {
    guard.link.Reset();
    BeAgent(agent_main, std::move(agent_end), mask, self);
  }
  return {};
}

// One message: a descriptor to hold, a directory to remove, a text to keep, or one of the single
// bytes above. False: the agent has closed its end.
bool TakeMessage(Guard& guard) {
  char bytes[PATH_MAX];
  Received message = ReceiveWithDescriptors(guard.link.get(), bytes, 1, MSG_DONTWAIT);
  if (message.size <= 0) {
    return message.size < 0 && (errno == EAGAIN || errno == EINTR);
  }
  const std::string after(bytes + 1, static_cast<std::size_t>(message.size) - 1);
  if (bytes[0] == '/') {
    guard.directory = "/" + after;
  } else if (bytes[0] == kSpare) {
    guard.spared.insert(std::atoi(after.c_str()));
  } else if (bytes[0] == kAtDeath) {
    guard.at_death = after;
  } else if (!message.descriptors.empty()) {
    if (guard.held.size() < kMaxHeld) {
      guard.held.push_back(std::move(message.descriptors.front()));
    }
  } else if (bytes[0] == kWatching) {
    guard.watching = true;
  } else if (bytes[0] == kUsed) {
    guard.directory.clear();
  }
  return true;
}

void TakeMessages(Guard& guard) {
  pollfd there{guard.link.get(), POLLIN, 0};
  while (::poll(&there, 1, 0) > 0 && TakeMessage(guard)) {
  }
}

// Whether this signal must kill the agent, because it is still being set up and may be waiting for
// a file, a name server or an endpoint.
bool EndsSetUp(Guard& guard, int signal) {
  if (guard.watching || !AsksForTheEnd(signal)) {
    return false;
  }
  TakeMessages(guard);
  return !guard.watching;
}

// True: it asks for the end.
bool PassOn(Guard& guard, int signal) {
  if (signal == SIGCHLD || !guard.requests.IsNew(signal, std::chrono::steady_clock::now())) {
    return false;
  }
  if (guard.link && EndsSetUp(guard, signal)) {
    guard.ended_by = signal;
    ::kill(guard.agent, SIGKILL);
  } else if (guard.link) {
    const char number = static_cast<char>(signal);
    // Lost only if the agent has not read some hundred earlier signals.
    (void)!::send(guard.link.get(), &number, 1, MSG_DONTWAIT | MSG_NOSIGNAL);
  }
  return AsksForTheEnd(signal);
}

// The same for each signal that ddprun passes on to a kept launch. Its end is that of the launch.
bool PassConnectionOn(Guard& guard) {
  char signal = 0;
  const ssize_t got = ::recv(guard.connection.get(), &signal, 1, MSG_DONTWAIT);
  if (got == 1) {
    return std::ranges::find(kPassedOn, signal) != kPassedOn.end() && PassOn(guard, signal);
  }
  if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
    guard.connection.Reset();
    guard.ended_by = SIGKILL;
    ::kill(guard.agent, SIGKILL);
    return true;
  }
  return false;
}

// Reads all pending signals and passes each request on. True: one of them asks for the end.
bool PassSignalsOn(Guard& guard) {
  signalfd_siginfo info{};
  bool ends = false;
  while (::read(guard.signals.get(), &info, sizeof info) == sizeof info) {
    ends |= PassOn(guard, static_cast<int>(info.ssi_signo));
  }
  return ends;
}

// Waits for kLookAgainMs at most. True: a signal asks for the end.
bool AwaitSignal(Guard& guard) {
  pollfd signal{guard.signals.get(), POLLIN, 0};
  ::poll(&signal, 1, kLookAgainMs);
  return PassSignalsOn(guard);
}

int WaitForAgent(Guard& guard) {
  while (true) {
    int status = 0;
    const pid_t ended = ::waitpid(guard.agent, &status, WNOHANG);
    if (ended == guard.agent) {
      TakeMessages(guard);  // Messages that it sent just before its end.
      return status;
    }
    std::array<pollfd, 3> events = {pollfd{guard.signals.get(), POLLIN, 0},
                                    pollfd{guard.link.get(), POLLIN, 0},
                                    pollfd{guard.connection.get(), POLLIN, 0}};
    ::poll(events.data(), events.size(), -1);
    PassSignalsOn(guard);
    if (events[2].revents != 0) {
      PassConnectionOn(guard);
    }
    if (events[1].revents != 0 && !TakeMessage(guard)) {
      guard.link.Reset();  // poll ignores -1.
    }
  }
}

// Writes a line, for at most a second: a stderr that is not read must not block the launch's end.
void Say(LogLevel level, const std::string& text) {
  struct sigaction interrupt {};
  interrupt.sa_handler = [](int) {};  // Without SA_RESTART: write(2) returns.
  ::sigaction(SIGALRM, &interrupt, nullptr);
  sigset_t alarm;
  ::sigemptyset(&alarm);
  ::sigaddset(&alarm, SIGALRM);
  ::sigprocmask(SIG_UNBLOCK, &alarm, nullptr);   // Our parent may have blocked it.
  const itimerval every_second{{1, 0}, {1, 0}};  // The first may come before the write.
  ::setitimer(ITIMER_REAL, &every_second, nullptr);
  const std::string line = InLogFormat(level, text, Heading(level, "ddprun") + " " + text + "\n");
  (void)!::write(STDERR_FILENO, line.data(), line.size());
  const itimerval never{};
  ::setitimer(ITIMER_REAL, &never, nullptr);
}

// The agent is dead, so all its descendants are, or become, children of this process.
void EndWhatIsLeft(Guard& guard) {
  guard.link.Reset();
  std::vector<pid_t> living;
  for (int round = 1; !SweepOnce(living, guard.spared); ++round) {
    if (round % kSayAfterRounds == 0 && !living.empty()) {
      Say(LogLevel::kInfo, "waiting for process " + std::to_string(living.front()) +
                               ", which has not ended after SIGKILL (stuck in the kernel?)");
    }
    AwaitSignal(guard);
  }
}

// Waits for processes that remove the shared memory of dead workers; no other process would do it.
void AwaitTidying(Guard& guard) {
  guard.held.clear();  // A new agent need not wait: no worker of this node is left.
  const auto deadline = std::chrono::steady_clock::now() + kTimeToTidyUp;
  while (!LetTidyUp(deadline, guard.spared)) {
    AwaitSignal(guard);
  }
}

}  // namespace

void GuardLink::Watch(AsioLoop& loop, std::function<void(int)> on_signal,
                      std::function<void()> on_guard_gone) {
  struct Watcher : std::enable_shared_from_this<Watcher> {
    Watcher(AsioLoop& loop, int fd) : socket(loop.io(), fd) {}

    void Wait() {
      socket.async_wait(boost::asio::posix::descriptor_base::wait_read,
                        [self = this->shared_from_this()](boost::system::error_code error) {
                          if (!error && self->socket.is_open()) {
                            self->Receive();
                          }
                        });
    }

    void Receive() {
      char number = 0;
      const ssize_t got = ::recv(socket.native_handle(), &number, 1, MSG_DONTWAIT);
      if (got == 1) {
        Wait();
        on_signal(number);
      } else if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
        Wait();
      } else {
        on_guard_gone();
      }
    }

    boost::asio::posix::stream_descriptor socket;
    std::function<void(int)> on_signal;
    std::function<void()> on_guard_gone;
  };
  auto watcher = std::make_shared<Watcher>(loop, ::fcntl(socket_.get(), F_DUPFD_CLOEXEC, 3));
  watcher->on_signal = std::move(on_signal);
  watcher->on_guard_gone = std::move(on_guard_gone);
  watcher->Wait();
  ::prctl(PR_SET_PDEATHSIG, 0);
  (void)!::send(socket_.get(), &kWatching, 1, MSG_NOSIGNAL);
  // The pending wait owns the watcher, so the watcher never outlives the loop. The link closes it.
  watch_ = std::shared_ptr<void>(nullptr, [weak = std::weak_ptr<Watcher>(watcher)](void*) {
    if (const auto self = weak.lock()) {
      boost::system::error_code ignored;
      self->socket.close(ignored);
    }
  });
}

bool GuardLink::HoldUntilGone(int fd) {
  return SendWithDescriptors(socket_.get(), {&kHold, 1}, {&fd, 1}, 0);
}

void GuardLink::LeaveAtDeath(const std::string& text) {
  const std::string message = kAtDeath + text;
  (void)!::send(socket_.get(), message.data(), message.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
}

bool GuardLink::Send(const std::string& message) {
  return message.size() < PATH_MAX && ::send(socket_.get(), message.data(), message.size(),
                                             MSG_NOSIGNAL) == static_cast<ssize_t>(message.size());
}

bool GuardLink::Spare(pid_t pid) {
  return Send(kSpare + std::to_string(pid));
}

bool GuardLink::RemoveWhenGone(const std::filesystem::path& directory) {
  return directory.is_absolute() && Send(directory.native());
}

bool GuardLink::RemoveUnlessUsed(const std::filesystem::path& directory) {
  unless_used_ = RemoveWhenGone(directory);
  return unless_used_;
}

void GuardLink::SayUsed() {
  if (std::exchange(unless_used_, false)) {
    Send(std::string(1, kUsed));
  }
}

int RunGuarded(const std::function<int(GuardLink)>& agent_main,
               const std::function<void(const std::string&)>& after_death) {
  UserLimits();
  ::signal(SIGCHLD, SIG_DFL);  // If a parent ignored it, waitpid would find no child.
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  const sigset_t signals = SignalsOfTheGuard();
  sigset_t before;
  ::sigprocmask(SIG_BLOCK, &signals, &before);
  Guard guard;
  const Result<void> started = HaveAgent(guard, agent_main, before);
  if (!started) {
    Say(LogLevel::kError, started.error().message);
    return kExitInternal;
  }
  ::setpgid(guard.agent, guard.agent);  // The agent does the same; either may be first.
  guard.signals = UniqueFd(::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
  ::signal(SIGPIPE, SIG_IGN);  // A failed write must not end the guard before its sweep.
  ::signal(SIGXFSZ, SIG_IGN);
  const ExitStatus status = DecodeWaitStatus(WaitForAgent(guard));
  EndWhatIsLeft(guard);
  if (after_death && !guard.at_death.empty()) {  // It may rely on that no process is left.
    const auto work = [&] {
      after_death(guard.at_death);
      return true;
    };
    RunInChild(work, kAfterDeathLimit, kAfterDeathLimit, [&] { return AwaitSignal(guard); });
  }
  const Killed* const killed = std::get_if<Killed>(&status);
  if (killed != nullptr && guard.ended_by == 0) {
    Say(LogLevel::kError, "the agent was " + Describe(*killed) +
                              "; ended all processes that it had started [agent-killed]");
  }
  // After an orderly end the agent has often removed it already.
  const std::string left = guard.directory.empty()
                               ? ""
                               : RemoveInTime(guard.directory, [&] { return AwaitSignal(guard); });
  if (!left.empty()) {
    Say(LogLevel::kWarning, left);
  }
  AwaitTidying(guard);
  if (killed != nullptr && guard.ended_by == 0 && IsOwnFault(*killed)) {
    return kExitInternal;
  }
  return killed != nullptr && guard.ended_by != 0 ? 128 + guard.ended_by : ShellCode(status);
}

}  // namespace ddprun
