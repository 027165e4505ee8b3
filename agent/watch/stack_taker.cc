#include "agent/watch/stack_taker.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <mutex>
#include <utility>

#include "agent/workers/worker_launcher.h"
#include "agent/workers/worker_spec.h"
#include "common/files.h"
#include "common/log.h"

namespace ddprun {
namespace {

constexpr std::size_t kAtOnce = 8;

// A child, from its launch to its end. One that holds a worker which is to go on is asked to let it
// go; others are killed.
class Child {
 public:
  explicit Child(bool live) : live_(live) {}

  void GiveUp() {
    if (!live_) {
      launch.GiveUp();
    }
    const std::lock_guard lock(mutex_);
    given_up_ = true;
    Signal();
  }

  // It runs, until Ended; its number may be another's then, and this is not.
  void Began(int pidfd) {
    const std::lock_guard lock(mutex_);
    pidfd_ = pidfd;
    if (given_up_) {
      Signal();
    }
  }
  void Ended() {
    const std::lock_guard lock(mutex_);
    pidfd_ = -1;
  }

  LaunchUnderWay launch;

 private:
  void Signal() const {
    if (pidfd_ >= 0) {
      ::syscall(SYS_pidfd_send_signal, pidfd_, live_ ? SIGTERM : SIGKILL, nullptr, 0);
    }
  }

  const bool live_;
  std::mutex mutex_;
  int pidfd_ = -1;
  bool given_up_ = false;
};

}  // namespace

class StackTaker::State : public std::enable_shared_from_this<State> {
 public:
  State(Loop& loop, std::string program) : loop_(loop), program_(std::move(program)) {}

  void Take(std::vector<StackJob> jobs, Duration limit, Done done) {
    Forget();
    jobs_ = std::move(jobs);
    codes_.assign(jobs_.size(), -1);
    limit_ = limit;
    done_ = std::move(done);
    loop_.Post([weak = weak_from_this(), round = round_] {
      if (const auto self = weak.lock(); self && self->round_ == round) {
        self->Next();
      }
    });
  }

  void Forget() {
    ++round_;
    jobs_.clear();
    for (const auto& child : children_) {
      child->GiveUp();
    }
    children_.clear();
    running_ = 0;
    started_ = 0;
    done_ = nullptr;
  }

 private:
  void Next() {
    while (running_ < kAtOnce && started_ < jobs_.size()) {
      ++running_;
      Run(started_++);
    }
    if (running_ == 0 && started_ == jobs_.size() && done_) {
      std::exchange(done_, nullptr)(codes_);
    }
  }

  void Run(std::size_t at) {
    const StackJob& job = jobs_[at];
    const auto code = std::make_shared<std::atomic<int>>(-1);
    const auto child = std::make_shared<Child>(job.live);
    children_.push_back(child);
    loop_.RunBounded(  // It keeps its limit itself, and then has something to write.
        2 * limit_,
        [child, code, spec = SpecOf(job), output = job.output] {
          *code = RunToEnd(spec, *child, output);
        },
        [weak = weak_from_this(), round = round_, code, at](bool) {
          if (const auto self = weak.lock(); self && self->round_ == round) {
            self->codes_[at] = *code;
            --self->running_;
            self->Next();
          }
        });
  }

  // On a thread, which stays for as long as the child, which would die with it (PDEATHSIG). The
  // code that sweeps up the generation reaps it. Of one with a file what it said, as an exit code;
  // -1: it was not started.
  static int RunToEnd(const WorkerSpec& spec, Child& running,
                      const std::shared_ptr<UniqueFd>& output) {
    const UniqueFd nothing(::open("/dev/null", O_RDWR | O_CLOEXEC));
    int ends[2] = {-1, -1};
    (void)::pipe2(ends, O_CLOEXEC | O_NONBLOCK);
    const UniqueFd from_child(ends[0]);
    UniqueFd to_us(ends[1]);
    const int out = output ? output->get() : to_us ? to_us.get() : nothing.get();
    const Result<LaunchedWorker> child =
        nothing ? LaunchWorker(spec, {nothing.get(), out, nothing.get()}, &running.launch)
                : SystemError("open", "/dev/null", errno);
    to_us.Reset();
    if (!child) {
      Log(LogLevel::kWarning, child.error().message);
      return -1;
    }
    running.Began(child->pidfd.get());
    siginfo_t ended{};
    while (::waitid(P_PIDFD, static_cast<id_t>(child->pidfd.get()), &ended, WEXITED | WNOWAIT) !=
               0 &&
           errno == EINTR) {
    }
    running.Ended();
    char said[1024];  // Its exit code may be taken already.
    const ssize_t got = from_child ? ::read(from_child.get(), said, sizeof said) : 0;
    std::string_view told(said, got > 0 ? static_cast<std::size_t>(got) : 0);
    const bool unknown = told.ends_with(kFramesUnknownText);
    told.remove_suffix(unknown ? std::string_view(kFramesUnknownText).size() : 0);
    if (!told.empty()) {
      Log(LogLevel::kWarning, "stacks are not kept: " + Printable(std::string(told)));
    }
    return unknown ? kFramesUnknown : 0;
  }

  WorkerSpec SpecOf(const StackJob& job) const {
    WorkerSpec spec;
    spec.command.file = program_;
    spec.command.argv = {"ddprun",  "stacks",
                         "--limit", std::to_string(static_cast<double>(limit_.count()) / 1000),
                         "--title", job.title};
    const auto add = [&](const char* option, const std::string& value) {
      if (!value.empty()) {
        spec.command.argv.insert(spec.command.argv.end(), {option, value});
      }
    };
    add("--into", job.file.native());
    add("--notify", job.notify);
    add("--recorder", job.recorder.native());
    add("--also", job.also.native());
    if (job.live) {
      spec.command.argv.push_back("--live");
    }
    spec.command.argv.push_back(std::to_string(job.pid));
    spec.environment = ProcessEnvironment();
    return spec;
  }

  Loop& loop_;
  const std::string program_;
  std::vector<StackJob> jobs_;
  Duration limit_{0};
  Done done_;
  std::vector<int> codes_;
  std::vector<std::shared_ptr<Child>> children_;  // Shared with their threads.
  std::size_t running_ = 0;
  std::size_t started_ = 0;
  std::uint64_t round_ = 0;
};

StackTaker::StackTaker(Loop& loop, std::string program)
    : state_(std::make_shared<State>(loop, std::move(program))) {}

StackTaker::~StackTaker() {
  state_->Forget();
}

void StackTaker::Take(std::vector<StackJob> jobs, Duration limit, Done done) {
  state_->Take(std::move(jobs), limit, std::move(done));
}

void StackTaker::Forget() {
  state_->Forget();
}

}  // namespace ddprun
