#include "agent/workers/output_sink.h"

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <utility>

#include "common/check.h"
#include "common/line_writer.h"
#include "common/log.h"

namespace ddprun {

// Outlives the sink while its thread is stuck in write(2) or close(2).
struct OutputSink::Shared {
  void Serve(const std::shared_ptr<Shared>& self);  // On the thread.

  std::mutex mutex;
  std::condition_variable changed;
  OutputSink* sink = nullptr;  // nullptr: gone, and with it whoever wants to hear of anything.
  std::string batch;           // To be written next.
  bool writing = false;
  UniqueFd fd;  // The thread's, once there is one.
};

void OutputSink::Shared::Serve(const std::shared_ptr<Shared>& self) {
  std::unique_lock lock(mutex);
  while (true) {
    changed.wait(lock, [this] { return sink == nullptr || !batch.empty(); });
    if (batch.empty()) {
      break;
    }
    writing = true;
    std::string lines = std::exchange(batch, {});
    lock.unlock();
    const int error_number = WriteLines(fd.get(), lines);
    lock.lock();
    writing = false;
    changed.notify_all();
    if (sink != nullptr) {
      sink->loop_.Post([self, error_number] {
        if (self->sink != nullptr) {  // It changes on the loop alone.
          self->sink->OnWritten(error_number);
        }
      });
    }
  }
  lock.unlock();
  fd.Reset();  // A network file system writes what it holds back.
}

OutputSink::OutputSink(Loop& loop, UniqueFd fd, std::string name)
    : loop_(loop), name_(std::move(name)), shared_(std::make_shared<Shared>()) {
  shared_->fd = std::move(fd);
  shared_->sink = this;
}

OutputSink::~OutputSink() {
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->sink = nullptr;
    shared_->changed.notify_all();
  }
  if (!HaveThread()) {
    (void)shared_->fd.Release();  // Better left open than waited for.
  }
}

bool OutputSink::HaveThread() {
  thread_ = thread_ || StartThread([shared = shared_] { shared->Serve(shared); });
  return thread_;
}

void OutputSink::Append(std::string_view lines) {
  if (lines.empty()) {
    return;
  }
  if (passed_over_) {
    dropped_ += lines.size();
    return;
  }
  pending_ += lines;
  if (!writing_) {
    StartWriting();
  }
}

void OutputSink::StartWriting() {
  writing_ = true;
  if (!HaveThread()) {
    pending_.clear();
    loop_.Post([shared = shared_] {
      if (shared->sink != nullptr) {
        shared->sink->OnWritten(EAGAIN);
      }
    });
    return;
  }
  const std::lock_guard lock(shared_->mutex);
  shared_->batch += std::exchange(pending_, {});
  shared_->changed.notify_all();
}

void OutputSink::PassOver() {
  passed_over_ = true;
  dropped_ = std::exchange(pending_, {}).size();
  Log(LogLevel::kWarning,
      "the workers' output to " + name_ +
          " is not written: its file system is not responding. Until it does, their output there "
          "is dropped, and they continue [output-not-written]");
}

void OutputSink::OnWritten(int error_number) {
  writing_ = false;
  if (std::exchange(passed_over_, false)) {
    const std::string lost = std::to_string(dropped_) + " bytes of output are missing";
    Log(LogLevel::kWarning, "the disk of " + name_ + " answers again; " + lost + " there");
    pending_ = "\nddprun | " + lost + " here: the disk did not answer\n";
  }
  if (error_number != 0 && !complained_) {
    complained_ = true;
    Log(LogLevel::kWarning, "cannot write the workers' output to " + name_ + ": " +
                                std::strerror(error_number) +
                                "; what cannot be written is dropped, the workers continue");
  }
  if (!pending_.empty()) {
    StartWriting();
  }
  for (const auto& call : std::exchange(waiting_, {})) {
    call();
  }
}

void OutputSink::WhenWritten(std::function<void()> call) {
  CHECK(writing_);
  waiting_.push_back(std::move(call));
}

void OutputSink::Flush(Duration limit) {
  if (!thread_) {
    return;
  }
  std::unique_lock lock(shared_->mutex);
  shared_->batch += std::exchange(pending_, {});
  shared_->changed.notify_all();
  const bool written = shared_->changed.wait_for(
      lock, limit, [this] { return shared_->batch.empty() && !shared_->writing; });
  if (!written) {
    lock.unlock();
    Log(LogLevel::kWarning,
        "the workers' output to " + name_ + " was not read in time: the end of it is lost");
  }
}

}  // namespace ddprun
