#include "agent/workers/child_run.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <utility>

#include "agent/workers/process_tree.h"
#include "common/files.h"

namespace ddprun {
namespace {

// The ends that this process reads; none: the stream goes elsewhere, or nothing more is read.
struct Streams {
  UniqueFd out;
  UniqueFd err;
};

// Takes what is in the pipe now.
void TakeOutput(UniqueFd& pipe, int stream, const ChildPlan& plan) {
  constexpr int kMostPieces = 64;  // A child that floods must not outlive its limit.
  char bytes[4'096];
  for (int pieces = 0; pipe && pieces < kMostPieces; ++pieces) {
    const ssize_t got = ::read(pipe.get(), bytes, sizeof bytes);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
      return;
    }
    if (got <= 0 || !plan.output(stream, {bytes, static_cast<std::size_t>(got)})) {
      pipe.Reset();
    }
  }
}

void TakeOutput(Streams& streams, const ChildPlan& plan) {
  TakeOutput(streams.out, STDOUT_FILENO, plan);
  TakeOutput(streams.err, STDERR_FILENO, plan);
}

// Kills the child and its process group. Both numbers are still its own: its status was not taken.
void Kill(pid_t child, const ChildPlan& plan) {
  if (!plan.spares_trackers) {
    ::kill(-child, SIGKILL);
  }
  ::kill(child, SIGKILL);
  if (plan.spares_trackers) {
    SignalMembers(Within::kGroup, {child}, DescendantsOf(::getpid(), {}), {SIGKILL});
  }
}

// Waits for its end, ends what it leaves in its group, and only then takes its status, unless a
// sweep of foreign children has done so.
std::optional<ExitStatus> StatusAtEnd(const LaunchedWorker& child, const ChildPlan& plan) {
  const auto wait = [&](int how) {
    siginfo_t ended{};
    int got = -1;
    do {
      got = ::waitid(P_PIDFD, static_cast<id_t>(child.pidfd.get()), &ended, WEXITED | how);
    } while (got != 0 && errno == EINTR);
    return got == 0 ? std::optional(ended) : std::nullopt;
  };
  const std::optional<siginfo_t> ended = wait(WNOWAIT);
  if (!ended) {
    return std::nullopt;
  }
  Kill(child.pid, plan);
  (void)wait(0);
  return ended->si_code == CLD_EXITED
             ? ExitStatus(Exited{ended->si_status})
             : ExitStatus(Killed{ended->si_status, ended->si_code == CLD_DUMPED});
}

// False: it was killed, or is asked to end, before it has ended.
bool AwaitEnd(const LaunchedWorker& child, const ChildPlan& plan, const LaunchUnderWay& under_way,
              Streams& streams) {
  using Clock = std::chrono::steady_clock;
  constexpr Duration kLongest{60'000};
  const std::optional<Clock::time_point> end =
      plan.limit ? std::optional(Clock::now() + *plan.limit) : std::nullopt;
  bool asked = false;
  bool ends = false;
  while (true) {
    const Duration left = end ? std::chrono::ceil<Duration>(*end - Clock::now()) : kLongest;
    const bool given_up = under_way.given_up();
    if (left <= Duration{0} || ends || (given_up && plan.signal == SIGKILL)) {
      Kill(child.pid, plan);
      return false;
    }
    if (given_up && !std::exchange(asked, true)) {
      ::kill(child.pid, plan.signal);
    }
    std::array<pollfd, 5> waits = {
        pollfd{child.pidfd.get(), POLLIN, 0}, pollfd{streams.out.get(), POLLIN, 0},
        pollfd{streams.err.get(), POLLIN, 0}, pollfd{asked ? -1 : under_way.wake(), POLLIN, 0},
        pollfd{plan.ends, POLLIN, 0}};
    const auto most = static_cast<int>(std::min(left, kLongest).count());
    if (::poll(waits.data(), waits.size(), most) < 0) {
      continue;
    }
    TakeOutput(streams, plan);
    if (waits[0].revents != 0) {
      return !asked;
    }
    ends = waits[4].revents != 0;
  }
}

}  // namespace

Result<std::optional<ExitStatus>> ChildRun::Run(const WorkerSpec& spec, const ChildPlan& plan) {
  const UniqueFd nothing(::open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!nothing) {
    return SystemError("open", "/dev/null", errno);
  }
  ASSIGN_OR_RETURN(Pipe out, MakePipe());
  ASSIGN_OR_RETURN(Pipe err, MakePipe());
  const int to = plan.out >= 0 ? plan.out : out.writer.get();
  const int errors = plan.both ? to : plan.errors ? err.writer.get() : nothing.get();
  ASSIGN_OR_RETURN(const LaunchedWorker child,
                   LaunchWorker(spec, {nothing.get(), to, errors}, &under_way_));
  out.writer.Reset();
  err.writer.Reset();
  Streams streams{std::move(out.reader), std::move(err.reader)};
  for (const UniqueFd* const pipe : {&streams.out, &streams.err}) {
    ::fcntl(pipe->get(), F_SETFL, O_NONBLOCK);
  }
  const bool ended = AwaitEnd(child, plan, under_way_, streams);
  const std::optional<ExitStatus> status = StatusAtEnd(child, plan);
  TakeOutput(streams, plan);
  return ended ? status : std::nullopt;
}

}  // namespace ddprun
