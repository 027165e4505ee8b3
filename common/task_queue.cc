#include "trainer/disk/disk_thread.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

namespace ddprun {

struct DiskThread::Queue {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<void()>> calls;
  bool busy = false;
  bool end = false;

  void Run() {
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [this] { return end || !calls.empty(); });
      if (calls.empty()) {
        return;
      }
      const std::function<void()> call = std::move(calls.front());
      calls.pop_front();
      busy = true;
      lock.unlock();
      call();
      lock.lock();
      busy = false;
      changed.notify_all();
    }
  }
};

DiskThread::DiskThread() : queue_(std::make_shared<Queue>()) {
  std::thread([queue = queue_] { queue->Run(); }).detach();
}

DiskThread::~DiskThread() {
  const std::lock_guard lock(queue_->mutex);
  queue_->end = true;
  queue_->changed.notify_all();
}

bool DiskThread::Post(std::function<void()> call) {
  const std::lock_guard lock(queue_->mutex);
  if (queue_->calls.size() >= kMostQueued) {
    return false;
  }
  queue_->calls.push_back(std::move(call));
  queue_->changed.notify_all();
  return true;
}

bool DiskThread::Drain(std::chrono::milliseconds limit) {
  std::unique_lock lock(queue_->mutex);
  return queue_->changed.wait_for(lock, limit,
                                  [this] { return queue_->calls.empty() && !queue_->busy; });
}

}  // namespace ddprun
