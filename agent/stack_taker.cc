#include "agent/stack_taker.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cerrno>
#include <utility>

#include "agent/worker_launcher.h"
#include "agent/worker_spec.h"
#include "common/files.h"
#include "common/log.h"

namespace ddprun {
namespace {

constexpr std::size_t kAtOnce = 8;

}  // namespace

class StackTaker::State : public std::enable_shared_from_this<State> {
 public:
  State(AsioLoop& loop, std::string program) : loop_(loop), program_(std::move(program)) {}

  void Take(std::vector<StackJob> jobs, Duration limit, std::function<void()> done) {
    Forget();
    jobs_ = std::move(jobs);
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
    running_ = 0;
    started_ = 0;
    done_ = nullptr;
  }

 private:
  using Pidfd = boost::asio::posix::stream_descriptor;

  void Next() {
    while (running_ < kAtOnce && started_ < jobs_.size()) {
      Result<LaunchedWorker> child = Start(jobs_[started_++]);
      if (!child) {
        Log(LogLevel::kWarning, child.error().message);
        continue;
      }
      ++running_;
      Await(std::make_shared<Pidfd>(loop_.io(), child->pidfd.Release()));
    }
    if (running_ == 0 && started_ == jobs_.size() && done_) {
      std::exchange(done_, nullptr)();
    }
  }

  void Await(const std::shared_ptr<Pidfd>& pidfd) {
    pidfd->async_wait(
        boost::asio::posix::descriptor_base::wait_read,
        [weak = weak_from_this(), pidfd, round = round_](boost::system::error_code error) {
          const auto self = weak.lock();
          if (!error && self && self->round_ == round) {
            --self->running_;
            self->Next();
          }
        });
  }

  Result<LaunchedWorker> Start(const StackJob& job) {
    const UniqueFd nothing(::open("/dev/null", O_RDWR | O_CLOEXEC));
    if (!nothing) {
      return SystemError("open", "/dev/null", errno);
    }
    WorkerSpec spec;
    spec.command.file = program_;
    spec.command.argv = {
        "ddprun",  "stacks",  "--limit", std::to_string(static_cast<double>(limit_.count()) / 1000),
        "--title", job.title, "--into",  job.file.native()};
    if (!job.also.empty()) {
      spec.command.argv.insert(spec.command.argv.end(), {"--also", job.also.native()});
    }
    spec.command.argv.push_back(std::to_string(job.pid));
    spec.environment = ProcessEnvironment();
    return LaunchWorker(spec, {nothing.get(), nothing.get(), nothing.get()});
  }

  AsioLoop& loop_;
  const std::string program_;
  std::vector<StackJob> jobs_;
  Duration limit_{0};
  std::function<void()> done_;
  std::size_t running_ = 0;
  std::size_t started_ = 0;
  std::uint64_t round_ = 0;
};

StackTaker::StackTaker(AsioLoop& loop, std::string program)
    : state_(std::make_shared<State>(loop, std::move(program))) {}

StackTaker::~StackTaker() {
  state_->Forget();
}

void StackTaker::Take(std::vector<StackJob> jobs, Duration limit, std::function<void()> done) {
  state_->Take(std::move(jobs), limit, std::move(done));
}

void StackTaker::Forget() {
  state_->Forget();
}

}  // namespace ddprun
