#include "trainer/checkpoint/saver.h"

#include <algorithm>
#include <utility>

namespace ddprun {
namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

Saver::Saver(CheckpointStore& store, SaverOptions options)
    : store_(store), options_(std::move(options)) {}

bool Saver::HasRoom() const {
  const std::lock_guard lock(mutex_);
  return !queued_;
}

std::optional<Snapshot> Saver::TakeSpent() {
  const std::lock_guard lock(mutex_);
  return std::exchange(spent_, std::nullopt);
}

std::optional<Snapshot> Saver::TakeQueued() {
  const std::lock_guard lock(mutex_);
  return std::exchange(queued_, std::nullopt);
}

bool Saver::Save(Snapshot&& snapshot) {
  {
    const std::lock_guard lock(mutex_);
    if (queued_) {
      return false;
    }
    queued_ = std::move(snapshot);
  }
  changed_.notify_all();
  return true;
}

void Saver::Drain() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return Idle(); });
}

Result<void> Saver::Close() {
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return Idle(); });
    if (fenced_) {
      return *fenced_;
    }
    closed_ = true;
  }
  changed_.notify_all();
  // The saver thread sleeps, so that the store has one user; the watcher asks nothing once closed.
  Result<void> closed = store_.Close();
  if (!closed && closed.error().kind == ErrorKind::kRefused) {
    const std::lock_guard lock(mutex_);
    NoteFenced(closed.error());
  }
  return closed;
}

std::vector<SaveResult> Saver::TakeResults() {
  const std::lock_guard lock(mutex_);
  return std::exchange(results_, {});
}

std::optional<Error> Saver::fenced() const {
  const std::lock_guard lock(mutex_);
  return fenced_;
}

void Saver::NoteFenced(const Error& error) {
  if (!fenced_) {
    fenced_ = error;
  }
}

SaveResult Saver::SaveOne(const Snapshot& snapshot) {
  SaveResult result;
  result.step = snapshot.state.step;
  Result<SaveReport> report = store_.Save(snapshot);
  if (report) {
    result.warnings = std::move(report->warnings);
  } else {
    result.error = std::move(report).error();
  }
  return result;
}

void Saver::RunSaver(const std::stop_token& end) {
  std::unique_lock lock(mutex_);
  while (changed_.wait(lock, end, [this] { return queued_.has_value(); })) {
    std::optional<Snapshot> snapshot = std::exchange(queued_, std::nullopt);
    saving_ = true;
    lock.unlock();
    changed_.notify_all();
    SaveResult result = SaveOne(*snapshot);
    lock.lock();
    snapshot.swap(spent_);
    lock.unlock();
    snapshot.reset();  // Gigabytes: given back outside of the lock.
    lock.lock();
    saving_ = false;
    if (result.error && result.error->kind == ErrorKind::kRefused) {
      NoteFenced(*result.error);
    }
    results_.push_back(std::move(result));
    changed_.notify_all();
  }
}

void Saver::RunWatcher(const std::stop_token& end) {
  Clock::time_point next_life = Clock::now();
  Clock::time_point next_check = Clock::now() + options_.check_fence;
  std::unique_lock lock(mutex_);
  while (!end.stop_requested() && !fenced_ && !closed_) {
    lock.unlock();
    const Clock::time_point now = Clock::now();
    Result<void> fence;
    if (now >= next_check) {
      fence = store_.CheckFence();  // A file system that hangs is no refusal.
      if (fence && options_.look) {
        options_.look();
      }
      next_check = now + options_.check_fence;
    }
    if (now >= next_life) {
      store_.ShowLife();
      next_life = now + options_.show_life;
    }
    lock.lock();
    if (!fence && fence.error().kind == ErrorKind::kRefused && !closed_) {
      NoteFenced(fence.error());
    }
    changed_.wait_until(lock, end, std::min(next_life, next_check),
                        [this] { return fenced_ || closed_; });
  }
  lock.unlock();
  store_.StopShowingLife();
}

}  // namespace ddprun
