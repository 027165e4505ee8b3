#include "trainer/checkpoint/saver.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace ddprun {
namespace {

using Clock = std::chrono::steady_clock;

bool SameLayout(const std::vector<TensorView>& view, const std::vector<Tensor>& tensors) {
  return std::ranges::equal(view, tensors, [](const TensorView& one, const Tensor& other) {
    return one.name == other.name && one.dtype == other.dtype && one.shape == other.shape &&
           one.bytes.size() == other.bytes.size();
  });
}

// Room for all tensors in one block, or the room that is there.
void Prepare(const std::vector<TensorView>& view, std::vector<Tensor>& tensors) {
  if (SameLayout(view, tensors)) {
    return;
  }
  std::size_t total = 0;
  for (const TensorView& tensor : view) {
    total += tensor.bytes.size();
  }
  const Bytes block = Bytes::Uninitialized(total);
  tensors.clear();
  std::size_t begin = 0;
  for (const TensorView& tensor : view) {
    tensors.push_back(
        {tensor.name, tensor.dtype, tensor.shape, block.Slice(begin, tensor.bytes.size())});
    begin += tensor.bytes.size();
  }
}

enum class Which { kForwardChanges, kOthers };

void Copy(const std::vector<TensorView>& view, std::vector<Tensor>& tensors, Which which) {
  for (std::size_t i = 0; i < view.size(); ++i) {
    if (view[i].forward_changes_it == (which == Which::kForwardChanges) && !view[i].bytes.empty()) {
      std::memcpy(tensors[i].bytes.mutable_data(), view[i].bytes.data(), view[i].bytes.size());
    }
  }
}

void Copy(const SnapshotView& view, Snapshot& snapshot, Which which) {
  Copy(view.model, snapshot.model, which);
  Copy(view.optimizer, snapshot.optimizer, which);
}

}  // namespace

SnapshotCopier::SnapshotCopier(std::function<void(Snapshot&&)> done,
                               std::function<void()> before_copy)
    : done_(std::move(done)),
      before_copy_(std::move(before_copy)),
      thread_([this](const std::stop_token& end) { Run(end); }) {}

void SnapshotCopier::Begin(SnapshotView view, TrainState state, std::optional<Snapshot> spent) {
  Wait();
  view_ = std::move(view);
  snapshot_ = spent ? *std::move(spent) : Snapshot{};
  snapshot_.state = std::move(state);
  Prepare(view_.model, snapshot_.model);
  Prepare(view_.optimizer, snapshot_.optimizer);
  if (!view_.wait) {
    Copy(view_, snapshot_, Which::kForwardChanges);
  }
  {
    const std::lock_guard lock(mutex_);
    copying_ = true;
  }
  changed_.notify_all();
}

void SnapshotCopier::WaitForCopy() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !copying_; });
}

void SnapshotCopier::Wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !copying_ && !handing_over_; });
}

bool SnapshotCopier::IsIdle() {
  const std::lock_guard lock(mutex_);
  return !copying_ && !handing_over_;
}

void SnapshotCopier::Run(const std::stop_token& end) {
  std::unique_lock lock(mutex_);
  while (true) {
    if (!changed_.wait(lock, end, [this] { return copying_; })) {
      return;
    }
    lock.unlock();
    if (before_copy_) {
      before_copy_();
    }
    if (view_.wait) {
      view_.wait();
      Copy(view_, snapshot_, Which::kForwardChanges);
    }
    Copy(view_, snapshot_, Which::kOthers);
    lock.lock();
    copying_ = false;
    handing_over_ = true;
    lock.unlock();
    changed_.notify_all();
    done_(std::move(snapshot_));
    lock.lock();
    handing_over_ = false;
    changed_.notify_all();
  }
}

Snapshot CopyNow(const SnapshotView& view, TrainState state) {
  Snapshot snapshot;
  snapshot.state = std::move(state);
  Prepare(view.model, snapshot.model);
  Prepare(view.optimizer, snapshot.optimizer);
  if (view.wait) {
    view.wait();
  }
  Copy(view, snapshot, Which::kForwardChanges);
  Copy(view, snapshot, Which::kOthers);
  return snapshot;
}

Saver::Saver(CheckpointStore& store, SaverOptions options)
    : store_(store), options_(std::move(options)) {}

bool Saver::HasRoom() {
  copier_.Wait();
  const std::lock_guard lock(mutex_);
  return !queued_;
}

bool Saver::Save(SnapshotView view, TrainState state, bool surpasses) {
  copier_.Wait();
  std::optional<Snapshot> memory;
  {
    const std::lock_guard lock(mutex_);
    if (queued_ && !surpasses) {
      return false;
    }
    memory = std::exchange(queued_ ? queued_ : spent_, std::nullopt);
  }
  copier_.Begin(std::move(view), std::move(state), std::move(memory));
  return true;
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
  copier_.Wait();
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return Idle(); });
}

Result<void> Saver::Close() {
  Drain();
  {
    const std::lock_guard lock(mutex_);
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

void Saver::RunSaver(const std::stop_token& end) {
  std::unique_lock lock(mutex_);
  while (changed_.wait(lock, end, [this] { return queued_.has_value(); })) {
    std::optional<Snapshot> snapshot = std::exchange(queued_, std::nullopt);
    saving_ = true;
    lock.unlock();
    changed_.notify_all();
    SaveResult result{snapshot->state.step, store_.Save(*snapshot)};
    lock.lock();
    snapshot.swap(spent_);
    lock.unlock();
    snapshot.reset();  // Gigabytes: given back outside of the lock.
    lock.lock();
    saving_ = false;
    if (!result.report && result.report.error().kind == ErrorKind::kRefused) {
      NoteFenced(result.report.error());
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
