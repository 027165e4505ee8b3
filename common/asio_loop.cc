#include "common/asio_loop.h"

#include <time.h>

#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <condition_variable>
#include <future>
#include <mutex>
#include <utility>
#include <vector>

#include "common/check.h"

namespace ddprun {
namespace {

// The one that goes on while the machine is suspended, as everybody else's does: who wakes finds
// that its leases are over. A timer that was armed before is late then.
Time BootTime() {
  timespec time{};
  CHECK(::clock_gettime(CLOCK_BOOTTIME, &time) == 0);
  return Time(std::chrono::duration_cast<CoreClock::duration>(
      std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec)));
}

class AsioAlarm final : public Alarm {
 public:
  explicit AsioAlarm(boost::asio::io_context& io) : timer_(io) {}

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

// One thread, and what it has to do. Outlives the loop where something hangs.
class AsioLoop::Lane : public std::enable_shared_from_this<Lane> {
 public:
  explicit Lane(AsioLoop& loop) : loop_(&loop), thread_(new boost::asio::thread_pool(1)) {}

  void Run(std::function<void()> work, std::function<void()> done) {
    {
      const std::lock_guard lock(mutex_);
      ++left_;
    }
    boost::asio::post(*thread_, [self = shared_from_this(), work = std::move(work),
                                 done = std::move(done)]() mutable {
      work();
      const std::lock_guard lock(self->mutex_);
      if (self->loop_ != nullptr) {
        self->loop_->Post(std::move(done));
      } else {  // What it holds may need the loop to end in order; the process is about to end.
        static std::mutex mutex;
        static auto& kept = *new std::vector<std::function<void()>>;
        const std::lock_guard all(mutex);
        kept.push_back(std::move(done));
      }
      --self->left_;
      self->changed_.notify_all();
    });
  }

  // The loop ends. Waits for what is under way; what hangs is left behind with its thread.
  void Close() {
    std::unique_lock lock(mutex_);
    loop_ = nullptr;
    if (changed_.wait_for(lock, kPatience, [this] { return left_ == 0; })) {
      lock.unlock();
      thread_->join();
      delete thread_;
    }
  }

 private:
  static constexpr Duration kPatience{1'000};

  std::mutex mutex_;
  std::condition_variable changed_;
  AsioLoop* loop_;  // nullptr: it has ended.
  std::size_t left_ = 0;
  boost::asio::thread_pool* const thread_;  // Not owned: its end waits for what it does.
};

struct AsioLoop::Gate {
  std::mutex mutex;
  AsioLoop* loop = nullptr;  // Null once it is gone.
  std::size_t running = 0;
};

struct AsioLoop::Errand {
  explicit Errand(AsioLoop& loop) : limit(loop) {}
  LoopTimer limit;
  std::function<void(bool)> done;
};

AsioLoop::AsioLoop()
    : io_(1), keep_(boost::asio::make_work_guard(io_)), gate_(std::make_shared<Gate>()) {
  gate_->loop = this;
}

AsioLoop::~AsioLoop() {
  {
    const std::lock_guard lock(gate_->mutex);
    gate_->loop = nullptr;
  }
  for (const auto& lane : {names_, disk_}) {
    if (lane) {
      lane->Close();
    }
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

void AsioLoop::RunBlocking(std::function<void()> work, std::function<void()> done) {
  if (!names_) {
    names_ = std::make_shared<Lane>(*this);
  }
  names_->Run(std::move(work), std::move(done));
}

void AsioLoop::RunOnDisk(std::function<void()> work, std::function<void()> done) {
  if (!disk_) {
    disk_ = std::make_shared<Lane>(*this);
  }
  disk_->Run(std::move(work), std::move(done));
}

bool AsioLoop::FinishOnDisk(Duration limit, std::function<void()> work) {
  const auto finished = std::make_shared<std::promise<void>>();
  const std::future<void> future = finished->get_future();
  RunOnDisk(
      [finished, work = std::move(work)] {
        work();
        finished->set_value();
      },
      [] {});
  return future.wait_for(limit) == std::future_status::ready;
}

void AsioLoop::RunBounded(Duration limit, std::function<void()> work,
                          std::function<void(bool)> done) {
  CheckOnLoop();
  const std::uint64_t number = ++last_errand_;
  auto errand = std::make_unique<Errand>(*this);
  errand->done = std::move(done);
  errand->limit.ArmAt(Now() + limit, [this, number] { FinishErrand(number, false); });
  errands_.emplace(number, std::move(errand));
  {
    const std::lock_guard lock(gate_->mutex);
    if (gate_->running >= kMostStuck) {
      Post([this, number] { FinishErrand(number, false); });
      return;
    }
    ++gate_->running;
  }
  const bool started = StartThread([gate = gate_, number, work = std::move(work)]() mutable {
    work();
    work = nullptr;  // What it holds may be on the disk that hangs.
    const std::lock_guard lock(gate->mutex);
    --gate->running;
    if (AsioLoop* const loop = gate->loop) {
      loop->Post([loop, number] { loop->FinishErrand(number, true); });
    }
  });
  if (!started) {
    const std::lock_guard lock(gate_->mutex);
    --gate_->running;
    Post([this, number] { FinishErrand(number, false); });
  }
}

void AsioLoop::FinishErrand(std::uint64_t number, bool in_time) {
  const auto found = errands_.find(number);
  if (found == errands_.end()) {
    return;  // It came too late.
  }
  const std::function<void(bool)> done = std::move(found->second->done);
  errands_.erase(found);
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
