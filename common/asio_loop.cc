#include "common/asio_loop.h"

#include <time.h>

#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <mutex>
#include <utility>
#include <vector>

#include "common/check.h"

namespace ddprun {
namespace {

constexpr Duration kPatience{1'000};  // Of the loop's end, with a disk that hangs.

// The clock that runs on while the machine is suspended, as that of all other machines does: a
// process that wakes finds that its leases are over. A timer that was armed before is late then.
Time BootTime() {
  timespec time{};
  CHECK(::clock_gettime(CLOCK_BOOTTIME, &time) == 0);
  return Time(std::chrono::duration_cast<CoreClock::duration>(
      std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec)));
}

class AsioAlarm final : public Alarm {
 public:
  explicit AsioAlarm(boost::asio::io_context& io) : timer_(io) {}
  ~AsioAlarm() override { Cancel(); }  // An expiry may be queued.

  void Set(Time when, std::function<void()> fire) override {
    armed_ = std::make_shared<bool>(true);
    // Never before the moment that its core named.
    timer_.expires_after(when - BootTime() + std::chrono::microseconds(1));
    timer_.async_wait([armed = armed_, fire = std::move(fire)](boost::system::error_code error) {
      if (!error && *armed) {
        *armed = false;
        fire();
      }
    });
  }

  void Cancel() override {
    if (armed_) {
      *armed_ = false;
      armed_.reset();
      timer_.cancel();
    }
  }

 private:
  boost::asio::steady_timer timer_;
  std::shared_ptr<bool> armed_;  // False once replaced: an expiry already queued must not fire.
};

}  // namespace

struct AsioLoop::LoopRef {
  std::mutex mutex;
  AsioLoop* loop = nullptr;  // Null once it is gone.
  std::size_t running = 0;
};

struct AsioLoop::BoundedTask {
  explicit BoundedTask(AsioLoop& loop) : limit(loop) {}
  LoopTimer limit;
  std::function<void(bool)> done;
};

AsioLoop::AsioLoop()
    : io_(1), keep_(boost::asio::make_work_guard(io_)), ref_(std::make_shared<LoopRef>()) {
  ref_->loop = this;
}

AsioLoop::~AsioLoop() {
  {
    const std::lock_guard lock(ref_->mutex);
    ref_->loop = nullptr;
  }
  for (TaskQueue* const queue : {&names_, &disk_}) {
    (void)queue->Drain(kPatience);
  }
}

void AsioLoop::Run() {
  thread_ = std::this_thread::get_id();
  io_.run();
}

void AsioLoop::Stop() {
  io_.stop();
}

void AsioLoop::Post(std::function<void()> work) {
  boost::asio::post(io_, std::move(work));
}

void AsioLoop::RunOn(TaskQueue& queue, std::function<void()> work, std::function<void()> done) {
  CHECK(queue.Post([ref = ref_, work = std::move(work), done = std::move(done)]() mutable {
    work();
    const std::lock_guard lock(ref->mutex);
    if (ref->loop != nullptr) {
      ref->loop->Post(std::move(done));
    } else {  // The callback's captures may need the loop to end in order; the process is about to
              // end.
      static auto& kept = *new std::vector<std::function<void()>>;
      kept.push_back(std::move(done));
    }
  }));
}

void AsioLoop::RunBlocking(std::function<void()> work, std::function<void()> done) {
  RunOn(names_, std::move(work), std::move(done));
}

void AsioLoop::RunOnDisk(std::function<void()> work, std::function<void()> done) {
  RunOn(disk_, std::move(work), std::move(done));
}

bool AsioLoop::FinishOnDisk(Duration limit, std::function<void()> work) {
  return disk_.Post(std::move(work)) && disk_.Drain(limit);
}

void AsioLoop::RunBounded(Duration limit, std::function<void()> work,
                          std::function<void(bool)> done) {
  CheckOnLoop();
  const std::uint64_t number = ++last_task_;
  auto task = std::make_unique<BoundedTask>(*this);
  task->done = std::move(done);
  task->limit.ArmAt(Now() + limit, [this, number] { FinishTask(number, false); });
  tasks_.emplace(number, std::move(task));
  {
    const std::lock_guard lock(ref_->mutex);
    if (ref_->running >= kMostStuck) {
      Post([this, number] { FinishTask(number, false); });
      return;
    }
    ++ref_->running;
  }
  const bool started = StartThread([ref = ref_, number, work = std::move(work)]() mutable {
    work();
    work = nullptr;  // Its captures may be on the disk that hangs.
    const std::lock_guard lock(ref->mutex);
    --ref->running;
    if (AsioLoop* const loop = ref->loop) {
      loop->Post([loop, number] { loop->FinishTask(number, true); });
    }
  });
  if (!started) {
    const std::lock_guard lock(ref_->mutex);
    --ref_->running;
    Post([this, number] { FinishTask(number, false); });
  }
}

void AsioLoop::FinishTask(std::uint64_t number, bool in_time) {
  const auto found = tasks_.find(number);
  if (found == tasks_.end()) {
    return;  // It came too late.
  }
  const std::function<void(bool)> done = std::move(found->second->done);
  tasks_.erase(found);
  done(in_time);
}

Time AsioLoop::Now() const {
  return BootTime();
}

void AsioLoop::CheckOnLoop() const {
  CHECK(thread_ == std::thread::id() || thread_ == std::this_thread::get_id());
}

std::unique_ptr<Alarm> AsioLoop::NewAlarm() {
  return std::make_unique<AsioAlarm>(io_);
}

}  // namespace ddprun
