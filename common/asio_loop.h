// The loop of a real process: one thread, Asio's sockets and timers beside the tasks, and threads
// for what may block. Time is CLOCK_BOOTTIME's, which runs on while the machine sleeps.
//
// Code that watches a socket, a process or a signal takes this class; all other code takes Loop.
#pragma once

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <thread>

#include "common/loop.h"
#include "common/task_queue.h"

namespace ddprun {

class AsioLoop final : public Loop {
 public:
  AsioLoop();
  ~AsioLoop() override;

  // Runs until Stop. The calling thread is the loop thread from here on.
  void Run();
  void Stop();

  void Post(std::function<void()> work) override;
  void RunBlocking(std::function<void()> work, std::function<void()> done) override;
  // The loop's end waits a moment for the disk and leaves it behind.
  void RunOnDisk(std::function<void()> work, std::function<void()> done) override;
  bool FinishOnDisk(Duration limit, std::function<void()> work) override;
  void RunBounded(Duration limit, std::function<void()> work,
                  std::function<void(bool)> done) override;
  Time Now() const override;
  void CheckOnLoop() const override;

  boost::asio::io_context& io() { return io_; }

 private:
  boost::asio::io_context io_;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> keep_;
  std::thread::id thread_;
  // Never full: a task that is not run would never be called back.
  TaskQueue names_{std::numeric_limits<std::size_t>::max()};
  TaskQueue disk_{std::numeric_limits<std::size_t>::max()};
  struct LoopRef;
  struct BoundedTask;
  std::shared_ptr<LoopRef> ref_;  // Shared with threads that may outlive the loop.
  std::map<std::uint64_t, std::unique_ptr<BoundedTask>> tasks_;
  std::uint64_t last_task_ = 0;

  std::unique_ptr<Alarm> NewAlarm() override;
  void RunOn(TaskQueue& queue, std::function<void()> work, std::function<void()> done);
  void FinishTask(std::uint64_t number, bool in_time);
};

}  // namespace ddprun
