#include "launcher/scheduler_command.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <mutex>
#include <utility>

#include "agent/wait_status.h"
#include "agent/worker_launcher.h"
#include "agent/worker_spec.h"
#include "common/files.h"

namespace ddprun {
namespace {

constexpr std::size_t kMaxPrinted = 64 << 10;

std::string Printed(int file) {
  std::string text(kMaxPrinted, '\0');
  const ssize_t read = ::pread(file, text.data(), text.size(), 0);
  text.resize(read > 0 ? static_cast<std::size_t>(read) : 0);
  text.erase(text.find_last_not_of(" \n\t") + 1);
  return text;
}

}  // namespace

// The thread stays for as long as the process does, which would die with it (PDEATHSIG).
struct SchedulerCommand::Call {
  // ---- On the thread ----
  Result<std::string> Ask();
  Result<ExitStatus> WaitFor(const WorkerSpec& spec, const ChildStdio& stdio);

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
  const UniqueFd printed(::memfd_create("printed", MFD_CLOEXEC));
  const UniqueFd said(::memfd_create("said", MFD_CLOEXEC));
  if (!nothing || !printed || !said) {
    return SystemError("make room for what is printed by", words.front(), errno);
  }
  ASSIGN_OR_RETURN(const ExitStatus status,
                   WaitFor(spec, {nothing.get(), printed.get(), said.get()}));
  if (!Succeeded(status)) {
    return Error{ErrorKind::kUnavailable,
                 words.front() + " ended with " + Describe(status) + ": " + Printed(said.get())};
  }
  return Printed(printed.get());
}

Result<ExitStatus> SchedulerCommand::Call::WaitFor(const WorkerSpec& spec,
                                                   const ChildStdio& stdio) {
  ASSIGN_OR_RETURN(const LaunchedWorker launched, LaunchWorker(spec, stdio, &under_way));
  {
    const std::lock_guard lock(mutex);
    pid = launched.pid;
    if (under_way.given_up()) {
      ::kill(-pid, SIGKILL);
    }
  }
  siginfo_t ended{};
  while (::waitid(P_PID, static_cast<id_t>(launched.pid), &ended, WEXITED | WNOWAIT) != 0 &&
         errno == EINTR) {
  }
  const std::lock_guard lock(mutex);
  int wait_status = 0;
  if (::waitpid(std::exchange(pid, 0), &wait_status, WNOHANG) != launched.pid) {
    return Error{ErrorKind::kUnavailable, words.front() + " has ended, nobody knows how"};
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
