#include "common/task_queue.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <utility>

#include "common/loop.h"

namespace ddprun {

struct TaskQueue::Shared {
  explicit Shared(std::size_t room_in) : room(room_in) {}

  void Run() {
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [this] { return closed || !tasks.empty(); });
      if (tasks.empty()) {
        return;
      }
      std::function<void()> task = std::move(tasks.front());
      tasks.pop_front();
      busy = true;
      lock.unlock();
      task();
      task = nullptr;  // Without the lock: its destructor may wait for the disk that hangs.
      lock.lock();
      busy = false;
      changed.notify_all();
    }
  }

  const std::size_t room;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<void()>> tasks;
  bool started = false;
  bool busy = false;
  bool closed = false;
};

TaskQueue::TaskQueue(std::size_t room) : shared_(std::make_shared<Shared>(room)) {}

TaskQueue::~TaskQueue() {
  const std::lock_guard lock(shared_->mutex);
  shared_->closed = true;
  shared_->changed.notify_all();
}

bool TaskQueue::Post(std::function<void()> task) {
  const std::lock_guard lock(shared_->mutex);
  shared_->started = shared_->started || StartThread([shared = shared_] { shared->Run(); });
  if (!shared_->started || shared_->tasks.size() >= shared_->room) {
    return false;
  }
  shared_->tasks.push_back(std::move(task));
  shared_->changed.notify_all();
  return true;
}

std::size_t TaskQueue::waiting() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->tasks.size();
}

bool TaskQueue::Idle() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->tasks.empty() && !shared_->busy;
}

bool TaskQueue::Drain(Duration limit) {
  std::unique_lock lock(shared_->mutex);
  return shared_->changed.wait_for(lock, limit,
                                   [this] { return shared_->tasks.empty() && !shared_->busy; });
}

}  // namespace ddprun
