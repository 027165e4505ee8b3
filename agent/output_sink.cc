#include "agent/output_sink.h"

#include <boost/asio/post.hpp>
#include <cstring>
#include <future>
#include <utility>

#include "common/check.h"
#include "common/line_writer.h"
#include "common/log.h"

namespace ddprun {
// Outlives the sink when its thread is stuck in write(2).
struct OutputSink::Shared {
  enum class Phase { kIdle, kWriting, kAbandoned };
  UniqueFd fd;
  std::atomic<Phase> phase = Phase::kIdle;
};

OutputSink::OutputSink(Loop& loop, UniqueFd fd, std::string name)
    : loop_(loop), name_(std::move(name)), shared_(std::make_shared<Shared>()) {
  shared_->fd = std::move(fd);
}

OutputSink::~OutputSink() {
  // Not writing: the thread is idle or about to be, and joins at once. Stuck in a write that may
  // never return, it is left behind; it will find kAbandoned and touch nothing but `shared_`.
  const auto before = shared_->phase.exchange(Shared::Phase::kAbandoned);
  if (before == Shared::Phase::kWriting || stuck_) {
    (void)thread_.release();
  }
}

void OutputSink::Append(std::string_view lines) {
  if (lines.empty()) {
    return;
  }
  pending_ += lines;
  if (!writing_) {
    StartWriting();
  }
}

void OutputSink::StartWriting() {
  if (!thread_) {
    thread_ = std::make_unique<boost::asio::thread_pool>(1);
  }
  writing_ = true;
  shared_->phase = Shared::Phase::kWriting;
  boost::asio::post(*thread_,
                    [this, shared = shared_, batch = std::exchange(pending_, {})]() mutable {
                      const int error_number = WriteLines(shared->fd.get(), batch);
                      auto writing = Shared::Phase::kWriting;
                      if (shared->phase.compare_exchange_strong(writing, Shared::Phase::kIdle)) {
                        loop_.Post([this, shared, error_number] {
                          if (shared->phase != Shared::Phase::kAbandoned) {
                            OnWritten(error_number);
                          }
                        });
                      }
                    });
}

void OutputSink::OnWritten(int error_number) {
  writing_ = false;
  if (error_number != 0 && !complained_) {
    complained_ = true;
    Log(LogLevel::kWarning, "cannot write the workers' output to " + name_ + ": " +
                                std::strerror(error_number) +
                                "; what cannot be written is dropped, the workers go on");
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
  auto written = std::make_shared<std::promise<void>>();
  boost::asio::post(*thread_, [shared = shared_, written, batch = std::exchange(pending_, {})] {
    WriteLines(shared->fd.get(), batch);
    written->set_value();
  });
  stuck_ = written->get_future().wait_for(limit) != std::future_status::ready;
  if (stuck_) {
    Log(LogLevel::kWarning,
        "nobody read the workers' output to " + name_ + " in time: the end of it is lost");
  }
}

}  // namespace ddprun
