#include "agent/workers/output_sink.h"

#include <cstring>
#include <mutex>
#include <utility>

#include "common/check.h"
#include "common/line_writer.h"
#include "common/log.h"

namespace ddprun {
namespace {

constexpr Duration kTryAgainAfter{50};

}  // namespace

// Outlives the sink while its thread is stuck in write(2) or close(2).
struct OutputSink::Shared {
  UniqueFd fd;  // The thread's, once there is one.
  std::mutex mutex;
  OutputSink* sink = nullptr;  // nullptr: gone, and its callbacks with it.
};

OutputSink::OutputSink(Loop& loop, UniqueFd fd, std::string name)
    : loop_(loop), name_(std::move(name)), shared_(std::make_shared<Shared>()), try_again_(loop) {
  shared_->fd = std::move(fd);
  shared_->sink = this;
}

OutputSink::~OutputSink() {
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->sink = nullptr;
  }
  // A network file system writes what it holds back. Without a thread the file is better left open
  // than waited for.
  if (!queue_.Post([shared = shared_] { shared->fd.Reset(); })) {
    (void)shared_->fd.Release();
  }
}

// False: there is no thread for it, and the bytes are still pending.
bool OutputSink::WriteOnThread() {
  const auto lines = std::make_shared<std::string>(std::exchange(pending_, {}));
  const bool posted = queue_.Post([shared = shared_, lines] {
    const int error_number = WriteLines(shared->fd.get(), *lines);
    const std::lock_guard lock(shared->mutex);
    if (shared->sink != nullptr) {
      shared->sink->loop_.Post([shared, error_number] {
        if (shared->sink != nullptr) {  // It changes on the loop alone.
          shared->sink->OnWritten(error_number);
        }
      });
    }
  });
  if (!posted) {
    pending_ = std::move(*lines);
  }
  return posted;
}

// At the limit of processes there may be no thread: then the loop writes what is taken at once.
void OutputSink::TryToWrite() {
  if (WriteOnThread()) {
    return;
  }
  const int error_number = WriteWithin(shared_->fd.get(), pending_, Duration{0});
  if (pending_.empty()) {
    try_again_.ArmAt(loop_.Now(), [this, error_number] { OnWritten(error_number); });
  } else {
    try_again_.ArmAt(loop_.Now() + kTryAgainAfter, [this] { TryToWrite(); });
  }
}

void OutputSink::Append(std::string_view lines) {
  if (lines.empty() || left_) {
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
  began_ = loop_.Now();
  TryToWrite();
}

void OutputSink::PassOver() {
  passed_over_ = true;
  dropped_ = std::exchange(pending_, {}).size();
  Log(LogLevel::kWarning,
      "the workers' output to " + name_ +
          " is not written: its file system is not responding. Until it does, ddprun drops their "
          "output there, and the workers continue [output-not-written]");
}

void OutputSink::Leave() {
  left_ = true;
  pending_.clear();
  for (const auto& call : std::exchange(waiting_, {})) {
    call();
  }
}

void OutputSink::OnWritten(int error_number) {
  writing_ = false;
  if (std::exchange(passed_over_, false)) {
    const std::string lost = std::to_string(dropped_) + " bytes of output are missing";
    Log(LogLevel::kWarning, "the file system of " + name_ + " responds again; " + lost + " there");
    pending_ = "\nddprun | " + lost + " here: the file system did not respond\n";
  }
  if (error_number != 0 && !complained_) {
    complained_ = true;
    Log(LogLevel::kWarning, "cannot write the workers' output to " + name_ + ": " +
                                std::strerror(error_number) +
                                "; ddprun drops it, and the workers continue");
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
  if (!pending_.empty() && !WriteOnThread()) {
    WriteWithin(shared_->fd.get(), pending_, limit);
  }
  if (!pending_.empty() || !queue_.Drain(limit)) {
    Log(LogLevel::kWarning,
        "the workers' output to " + name_ + " was not read in time: its end is lost");
  }
}

}  // namespace ddprun
