#include "launcher/slurm/scheduler_command.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <mutex>
#include <string_view>
#include <utility>

#include "agent/workers/wait_status.h"
#include "agent/workers/worker_launcher.h"
#include "agent/workers/worker_spec.h"
#include "common/files.h"
#include "common/log.h"

namespace ddprun {
namespace {

constexpr std::size_t kMaxPrinted = 64 << 10;

// The output of a command: one stream, read as it comes.
class Stream {
 public:
  bool Open() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) {
      return false;
    }
    reader_ = UniqueFd(ends[0]);
    writer_ = UniqueFd(ends[1]);
    return ::fcntl(reader_.get(), F_SETFL, O_NONBLOCK) == 0;
  }
  int writer() const { return writer_.get(); }
  int reader() const { return reader_.get(); }  // -1: nothing more is read.
  void CloseWriter() { writer_ = UniqueFd(); }

  // All that is there. With too much the reader goes, so that the command's next write is refused:
  // endless output would otherwise be held, or read, until the limit.
  void Read() {
    char piece[4096];
    for (ssize_t size = 0; reader_ && (size = ::read(reader_.get(), piece, sizeof piece)) >= 0;) {
      text_.append(piece, static_cast<std::size_t>(size));
      if (size == 0 || text_.size() > kMaxPrinted) {
        reader_ = UniqueFd();
      }
    }
  }

  // For people, too: the author of these words is not known.
  std::string Printed() const {
    std::string text = Printable(std::string_view(text_).substr(0, kMaxPrinted));
    text.erase(text.find_last_not_of(" \n\t") + 1);
    return text;
  }

 private:
  UniqueFd reader_;
  UniqueFd writer_;
  std::string text_;
};

// Until the process has ended, whoever else still has its streams.
void ReadUntilItEnds(int pidfd, Stream& printed, Stream& said) {
  std::array<pollfd, 3> polled{};
  while ((polled[0].revents & POLLIN) == 0) {
    polled = {{{pidfd, POLLIN, 0}, {printed.reader(), POLLIN, 0}, {said.reader(), POLLIN, 0}}};
    if (::poll(polled.data(), polled.size(), -1) < 0 && errno != EINTR) {
      return;
    }
    printed.Read();
    said.Read();
  }
}

}  // namespace

// The thread stays for as long as the process does, which would die with it (PDEATHSIG).
struct SchedulerCommand::Call {
  // ---- On the thread ----
  Result<std::string> Ask();
  Result<ExitStatus> WaitFor(const WorkerSpec& spec, int nothing, Stream& printed, Stream& said);

  // ---- On the loop ----
  void Kill();
  Done done;

  std::vector<std::string> words;
  Result<std::string> answer = std::string();  // The thread's, until it has ended.
  LaunchUnderWay under_way;
  std::mutex mutex;
  pid_t pid = 0;  // Begun and not reaped.
};

Result<std::string> SchedulerCommand::Call::Ask() {
  WorkerSpec spec;
  ASSIGN_OR_RETURN(spec.command.file, FindProgram(words.front(), GetProcessEnv));
  spec.command.argv = words;
  spec.environment = ProcessEnvironment();
  spec.helper = true;
  const UniqueFd nothing(::open("/dev/null", O_RDWR | O_CLOEXEC));
  Stream printed;
  Stream said;
  if (!nothing || !printed.Open() || !said.Open()) {
    return SystemError("make room for what is printed by", words.front(), errno);
  }
  ASSIGN_OR_RETURN(const ExitStatus status, WaitFor(spec, nothing.get(), printed, said));
  if (!Succeeded(status)) {
    return Error{ErrorKind::kUnavailable,
                 words.front() + " ended with " + Describe(status) + ": " + said.Printed()};
  }
  return printed.Printed();
}

Result<ExitStatus> SchedulerCommand::Call::WaitFor(const WorkerSpec& spec, int nothing,
                                                   Stream& printed, Stream& said) {
  ASSIGN_OR_RETURN(const LaunchedWorker launched,
                   LaunchWorker(spec, {nothing, printed.writer(), said.writer()}, &under_way));
  printed.CloseWriter();
  said.CloseWriter();
  {
    const std::lock_guard lock(mutex);
    pid = launched.pid;
    if (under_way.given_up()) {
      ::kill(-pid, SIGKILL);
    }
  }
  ReadUntilItEnds(launched.pidfd.get(), printed, said);
  siginfo_t ended{};
  while (::waitid(P_PID, static_cast<id_t>(launched.pid), &ended, WEXITED | WNOWAIT) != 0 &&
         errno == EINTR) {
  }
  const std::lock_guard lock(mutex);
  int wait_status = 0;
  if (::waitpid(std::exchange(pid, 0), &wait_status, WNOHANG) != launched.pid) {
    return Error{ErrorKind::kUnavailable,
                 words.front() + " has ended, and its exit status is lost"};
  }
  return DecodeWaitStatus(wait_status);
}

void SchedulerCommand::Call::Kill() {
  under_way.GiveUp();
  const std::lock_guard lock(mutex);
  if (pid != 0) {
    ::kill(-pid, SIGKILL);  // A site's own squeue may be a script.
  }
}

SchedulerCommand::SchedulerCommand(Loop& loop) : loop_(loop) {}

SchedulerCommand::~SchedulerCommand() {
  Forget();
}

void SchedulerCommand::Forget() {
  if (call_) {
    call_->done = nullptr;
    call_->Kill();
    call_.reset();
  }
}

void SchedulerCommand::Run(const std::vector<std::string>& words, Duration limit, Done done) {
  Forget();
  call_ = std::make_shared<Call>();
  call_->words = words;
  call_->done = std::move(done);
  loop_.RunBounded(
      limit, [call = call_] { call->answer = call->Ask(); },
      [call = call_, limit](bool in_time) {
        if (!in_time) {
          call->Kill();
        }
        if (const Done done = std::exchange(call->done, nullptr)) {
          done(in_time
                   ? call->answer
                   : Error{ErrorKind::kUnavailable,
                           call->words.front() + " has not answered for " + FormatDuration(limit)});
        }
      });
}

}  // namespace ddprun
