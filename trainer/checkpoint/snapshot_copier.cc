#include "trainer/checkpoint/snapshot_copier.h"

#include <cstring>
#include <utility>

#include "common/check.h"

namespace ddprun {
namespace {

bool SameLayout(const std::vector<TensorView>& view, const std::vector<Tensor>& tensors) {
  if (view.size() != tensors.size()) {
    return false;
  }
  for (std::size_t i = 0; i < view.size(); ++i) {
    if (view[i].name != tensors[i].name || view[i].dtype != tensors[i].dtype ||
        view[i].shape != tensors[i].shape || view[i].bytes.size() != tensors[i].bytes.size()) {
      return false;
    }
  }
  return true;
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

}  // namespace ddprun
