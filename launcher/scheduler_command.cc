#include "launcher/scheduler_command.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/posix/stream_descriptor.hpp>
#include <cerrno>
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

class SchedulerCommand::State : public std::enable_shared_from_this<State> {
 public:
  State(AsioLoop& loop, std::string name, Done done)
      : loop_(loop),
        name_(std::move(name)),
        done_(std::move(done)),
        limit_(loop),
        pidfd_(loop.io()) {}

  Result<void> Start(const std::vector<std::string>& words, Duration limit) {
    WorkerSpec spec;
    ASSIGN_OR_RETURN(spec.command.file, FindProgram(words.front(), GetProcessEnv));
    spec.command.argv = words;
    spec.environment = ProcessEnvironment();
    spec.helper = true;
    const UniqueFd nothing(::open("/dev/null", O_RDWR | O_CLOEXEC));
    printed_ = UniqueFd(::memfd_create("printed", MFD_CLOEXEC));
    said_ = UniqueFd(::memfd_create("said", MFD_CLOEXEC));
    if (!nothing || !printed_ || !said_) {
      return SystemError("make room for what is printed by", words.front(), errno);
    }
    ASSIGN_OR_RETURN(LaunchedWorker launched,
                     LaunchWorker(spec, {nothing.get(), printed_.get(), said_.get()}));
    pid_ = launched.pid;
    pidfd_.assign(launched.pidfd.Release());
    pidfd_.async_wait(boost::asio::posix::descriptor_base::wait_read,
                      [weak = weak_from_this()](boost::system::error_code error) {
                        if (const auto self = weak.lock(); self && !error) {
                          self->OnEnded();
                        }
                      });
    limit_.ArmAt(loop_.Now() + limit, [this, limit] {
      late_ = "has not answered for " + FormatDuration(limit);
      Kill();
    });
    return {};
  }

  void Fail(const Error& error) {
    loop_.Post([self = shared_from_this(), error] { self->Answer(error); });
  }

  void Forget() {
    done_ = nullptr;
    Kill();
  }

 private:
  void Kill() {
    if (pid_ != 0) {
      ::kill(-pid_, SIGKILL);  // A site's own squeue may be a script.
    }
  }

  void OnEnded() {
    int wait_status = 0;
    const pid_t taken = ::waitpid(std::exchange(pid_, 0), &wait_status, WNOHANG);
    limit_.Cancel();
    if (!late_.empty()) {
      Answer(Error{ErrorKind::kUnavailable, name_ + " " + late_});
    } else if (taken > 0 && !Succeeded(DecodeWaitStatus(wait_status))) {
      Answer(Error{ErrorKind::kUnavailable, name_ + " ended with " +
                                                Describe(DecodeWaitStatus(wait_status)) + ": " +
                                                Printed(said_.get())});
    } else {
      Answer(Printed(printed_.get()));
    }
  }

  void Answer(const Result<std::string>& result) {
    if (done_) {
      std::exchange(done_, nullptr)(result);
    }
  }

  AsioLoop& loop_;
  const std::string name_;
  Done done_;
  LoopTimer limit_;
  boost::asio::posix::stream_descriptor pidfd_;
  UniqueFd printed_;
  UniqueFd said_;
  std::string late_;
  pid_t pid_ = 0;
};

SchedulerCommand::SchedulerCommand(AsioLoop& loop) : loop_(loop) {}

SchedulerCommand::~SchedulerCommand() {
  if (state_) {
    state_->Forget();
  }
}

void SchedulerCommand::Run(const std::vector<std::string>& words, Duration limit, Done done) {
  if (state_) {
    state_->Forget();
  }
  state_ = std::make_shared<State>(loop_, words.front(), std::move(done));
  if (const Result<void> started = state_->Start(words, limit); !started) {
    state_->Fail(started.error());
  }
}

}  // namespace ddprun
