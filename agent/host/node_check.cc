#include "agent/host/node_check.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <sstream>
#include <utility>

#include "agent/host/verdict.h"
#include "agent/workers/process_tree.h"
#include "agent/workers/worker_launcher.h"
#include "agent/workers/worker_spec.h"
#include "common/files.h"
#include "common/log.h"

namespace ddprun {
namespace {

constexpr Duration kLaunchAndDeath{2'000};  // Beside its limit, until it counts as not to be ended.
constexpr Duration kSweepLimit{1'000};
constexpr Duration kSweepAgain{5};
constexpr std::size_t kMostLinesShown = 20;
constexpr const char* kOutlives = "it outlives SIGKILL (a disk or a device that hangs?)";

// Takes what is in the pipe now. False: nothing will come any more.
bool TakeOutput(int pipe, std::string& output) {
  char bytes[4'096];
  for (int pieces = 0; pieces < 64; ++pieces) {  // One that floods must not outlive its limit.
    const ssize_t got = ::read(pipe, bytes, sizeof bytes);
    if (got <= 0) {
      return got < 0 && (errno == EAGAIN || errno == EINTR);
    }
    AppendCheckOutput(output, std::string_view(bytes, static_cast<std::size_t>(got)));
  }
  return true;
}

// Without taking its status: its number is its own until it is swept up.
std::optional<ExitStatus> StatusOf(int pidfd) {
  siginfo_t ended{};
  if (::waitid(P_PIDFD, static_cast<id_t>(pidfd), &ended, WEXITED | WNOHANG | WNOWAIT) != 0 ||
      ended.si_pid == 0) {
    return std::nullopt;
  }
  if (ended.si_code == CLD_EXITED) {
    return Exited{ended.si_status};
  }
  return Killed{ended.si_status, ended.si_code == CLD_DUMPED};
}

// Kills `child` and its process group. Both IDs are still this child's: its status was not taken.
void End(pid_t child) {
  ::kill(child, SIGKILL);
  SignalMembers(Within::kGroup, {child}, {}, {SIGKILL});
}

// Until it ends, or its limit is over or it is given up; then it is killed, and waited for.
void Watch(const LaunchedWorker& child, int pipe, Duration limit, const LaunchUnderWay& under_way,
           CheckOutcome& outcome) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  bool open = true;
  while (true) {
    const auto left =
        std::chrono::ceil<Duration>(deadline - std::chrono::steady_clock::now()).count();
    if (left <= 0 || under_way.given_up()) {
      End(child.pid);
      siginfo_t ended{};
      while (::waitid(P_PIDFD, static_cast<id_t>(child.pidfd.get()), &ended, WEXITED | WNOWAIT) !=
                 0 &&
             errno == EINTR) {
      }
      break;
    }
    pollfd waits[] = {{child.pidfd.get(), POLLIN, 0},
                      {open ? pipe : -1, POLLIN, 0},
                      {under_way.wake(), POLLIN, 0}};
    if (::poll(waits, 3, static_cast<int>(std::min<Duration::rep>(left, 60'000))) < 0) {
      continue;
    }
    open = open && (waits[1].revents == 0 || TakeOutput(pipe, outcome.output));
    if (waits[0].revents != 0) {
      outcome.status = StatusOf(child.pidfd.get());
      End(child.pid);  // Kills the processes that it leaves in its group.
      break;
    }
  }
  TakeOutput(pipe, outcome.output);
}

// On a thread, with which the command would die. It may stay here for ever.
CheckOutcome RunCommand(const WorkerSpec& spec, Duration limit, LaunchUnderWay& under_way) {
  CheckOutcome outcome;
  int ends[2];
  const UniqueFd nothing(::open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!nothing || ::pipe2(ends, O_CLOEXEC) != 0) {
    outcome.error = SystemError("make a pipe for", "its output", errno).message;
    return outcome;
  }
  const UniqueFd pipe(ends[0]);
  UniqueFd write_end(ends[1]);
  ::fcntl(pipe.get(), F_SETFL, O_NONBLOCK);
  const Result<LaunchedWorker> child =
      LaunchWorker(spec, {nothing.get(), write_end.get(), write_end.get()}, &under_way);
  write_end.Reset();
  if (!child) {
    outcome.error = child.error().message;
    return outcome;
  }
  Watch(*child, pipe.get(), limit, under_way, outcome);
  return outcome;
}

void ShowOutput(const std::string& output, LogLevel level) {
  std::istringstream lines(output);
  std::vector<std::string> all;
  for (std::string line; std::getline(lines, line);) {
    all.push_back(line);
  }
  const std::size_t first = all.size() > kMostLinesShown ? all.size() - kMostLinesShown : 0;
  for (std::size_t i = first; i < all.size(); ++i) {
    Log(level, "node check | " + Printable(all[i]));
  }
}

}  // namespace

class NodeCheck::State : public std::enable_shared_from_this<State> {
 public:
  State(Loop& loop, std::string command, Duration limit)
      : loop_(loop), command_(std::move(command)), limit_(limit), sweep_(loop) {}

  void Run(const std::string& cause, std::function<void(std::string)> verdict) {
    verdict_ = std::move(verdict);
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);  // Processes that it leaves become this process's children.
                                         // Set again for workers.
    WorkerSpec spec;
    spec.command.file = "/bin/sh";
    spec.command.argv = {"sh", "-c", command_};
    spec.environment = ProcessEnvironment();
    spec.environment["DDPRUN_CHECK_CAUSE"] = cause;
    under_way_ = std::make_shared<LaunchUnderWay>();
    const auto outcome = std::make_shared<CheckOutcome>();
    loop_.RunBounded(
        limit_ + kLaunchAndDeath,
        [spec, outcome, limit = limit_, under_way = under_way_] {
          *outcome = RunCommand(spec, limit, *under_way);
        },
        [weak = weak_from_this(), outcome](bool in_time) {
          if (const auto self = weak.lock(); self && self->verdict_) {
            self->OnEnded(in_time ? outcome.get() : nullptr);
          }
        });
  }

  void Stop() {
    verdict_ = nullptr;
    sweep_.Cancel();
    if (under_way_) {
      under_way_->GiveUp();
    }
  }

 private:
  void OnEnded(const CheckOutcome* outcome) {
    if (outcome == nullptr) {
      under_way_->GiveUp();  // A start that hung before the command began must not start it later.
      Tell(kOutlives);
      return;
    }
    const std::string unfit = VerdictOf(*outcome, limit_);
    if (!unfit.empty()) {
      ShowOutput(outcome->output, unfit == last_ ? LogLevel::kDebug : LogLevel::kInfo);
    }
    SweepThenTell(unfit, loop_.Now() + kSweepLimit);
  }

  // No worker is here, so all that is not ddprun's own is what the check has left.
  void SweepThenTell(const std::string& unfit, Time until) {
    if (SweepChildren({}, Reach::kWhatWorkersLeave).empty()) {
      Tell(unfit);
    } else if (loop_.Now() >= until) {
      Tell(kOutlives);
    } else {
      sweep_.ArmAt(loop_.Now() + kSweepAgain,
                   [this, unfit, until] { SweepThenTell(unfit, until); });
    }
  }

  void Tell(const std::string& unfit) {
    last_ = unfit;
    std::exchange(verdict_, nullptr)(unfit);
  }

  Loop& loop_;
  const std::string command_;
  const Duration limit_;
  LoopTimer sweep_;
  std::shared_ptr<LaunchUnderWay> under_way_;  // Of the newest one.
  std::function<void(std::string)> verdict_;   // None is waited for.
  std::string last_;
};

NodeCheck::NodeCheck(Loop& loop, std::string command, Duration limit)
    : state_(std::make_shared<State>(loop, std::move(command), limit)) {}

NodeCheck::~NodeCheck() {
  state_->Stop();
}

void NodeCheck::Run(const std::string& cause, std::function<void(std::string)> verdict) {
  state_->Run(cause, std::move(verdict));
}

void NodeCheck::Stop() {
  state_->Stop();
}

}  // namespace ddprun
