#include "launcher/verbs/slow_output.h"

#include <condition_variable>
#include <mutex>
#include <utility>

#include "common/exit_code.h"
#include "common/loop.h"
#include "launcher/print_out.h"

namespace ddprun {

struct SlowOutput::Shared {
  std::mutex mutex;
  std::condition_variable changed;
  std::string waiting;
  std::size_t writing = 0;  // Bytes.
  bool failed = false;
  bool closed = false;
};

namespace {

template <class State>
void WriteUntilClosed(State& state) {
  std::unique_lock lock(state.mutex);
  while (true) {
    state.changed.wait(lock, [&] { return !state.waiting.empty() || state.closed; });
    if (state.waiting.empty()) {
      return;
    }
    const std::string text = std::exchange(state.waiting, {});
    state.writing = text.size();
    lock.unlock();
    const bool written = PrintOut(text) == kExitOk;
    lock.lock();
    state.writing = 0;
    state.failed = state.failed || !written;
    state.changed.notify_all();
  }
}

}  // namespace

SlowOutput::SlowOutput() : shared_(std::make_shared<Shared>()) {
  if (!StartThread([shared = shared_] { WriteUntilClosed(*shared); })) {
    shared_->failed = true;
  }
}

SlowOutput::~SlowOutput() {
  const std::lock_guard lock(shared_->mutex);
  shared_->waiting.clear();
  shared_->closed = true;
  shared_->changed.notify_all();
}

void SlowOutput::Put(const std::string& text) {
  const std::lock_guard lock(shared_->mutex);
  if (!shared_->failed) {
    shared_->waiting += text;
    shared_->changed.notify_all();
  }
}

bool SlowOutput::HasRoom() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->waiting.size() + shared_->writing < kRoom;
}

bool SlowOutput::failed() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->failed;
}

bool SlowOutput::Finish() {
  std::unique_lock lock(shared_->mutex);
  shared_->changed.wait(
      lock, [&] { return shared_->failed || (shared_->waiting.empty() && shared_->writing == 0); });
  return !shared_->failed;
}

}  // namespace ddprun
