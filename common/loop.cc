#include "common/loop.h"

#include <boost/asio/post.hpp>
#include <utility>

#include "common/check.h"

namespace ddprun {
namespace {

using SteadyTime = std::chrono::steady_clock::time_point;

Time FromSteady(SteadyTime time) {
  return Time(std::chrono::duration_cast<CoreClock::duration>(time.time_since_epoch()));
}

// Rounded up, so that a timer never fires before the moment its core named.
SteadyTime ToSteady(Time time) {
  return SteadyTime(
      std::chrono::ceil<std::chrono::steady_clock::duration>(time.time_since_epoch()) +
      std::chrono::microseconds(1));
}

}  // namespace

Loop::Loop() : io_(1), keep_(boost::asio::make_work_guard(io_)) {}

Loop::~Loop() {
  if (pool_) {
    pool_->join();
  }
}

void Loop::Run() {
  thread_ = std::this_thread::get_id();
  io_.run();
}

void Loop::Stop() {
  io_.stop();
}

void Loop::Post(std::function<void()> work) {
  boost::asio::post(io_, std::move(work));
}

void Loop::RunBlocking(std::function<void()> work, std::function<void()> done) {
  if (!pool_) {
    pool_ = std::make_unique<boost::asio::thread_pool>(1);
  }
  boost::asio::post(*pool_, [this, work = std::move(work), done = std::move(done)]() mutable {
    work();
    Post(std::move(done));
  });
}

Time Loop::Now() const {
  return FromSteady(std::chrono::steady_clock::now());
}

void Loop::CheckOnLoop() const {
  CHECK(thread_ == std::thread::id() || thread_ == std::this_thread::get_id());
}

LoopTimer::LoopTimer(Loop& loop) : timer_(loop.io()) {}

void LoopTimer::ArmAt(std::optional<Time> when, std::function<void()> fire) {
  Cancel();
  if (!when) {
    return;
  }
  armed_ = std::make_shared<bool>(true);
  timer_.expires_at(ToSteady(*when));
  timer_.async_wait([armed = armed_, fire = std::move(fire)](boost::system::error_code error) {
    if (!error && *armed) {
      *armed = false;
      fire();
    }
  });
}

void LoopTimer::Cancel() {
  if (armed_) {
    *armed_ = false;
    armed_.reset();
    timer_.cancel();
  }
}

}  // namespace ddprun
