#include "launcher/evidence/background_writer.h"

#include <atomic>
#include <mutex>
#include <utility>

#include "common/log.h"

namespace ddprun {

struct BackgroundWriter::Shared {
  explicit Shared(std::function<Result<void>()> how) : write(std::move(how)) {}

  const std::function<Result<void>()> write;
  std::atomic<bool> writing = false;

  std::mutex disk;    // One writes.
  bool over = false;  // Nothing is written any more.

  Result<void> Write() {
    const std::lock_guard one(disk);
    return over ? Result<void>() : write();
  }
  Result<void> End() {
    const std::lock_guard one(disk);
    over = true;
    return write();
  }
};

BackgroundWriter::BackgroundWriter(Loop& loop, Parts parts)
    : loop_(loop), parts_(std::move(parts)), shared_(std::make_shared<Shared>(parts_.write)) {}

void BackgroundWriter::Write() {
  again_ = shared_->writing.exchange(true);
  if (again_) {
    return;
  }
  const auto refused = std::make_shared<std::string>();
  // Its end is that of the writing, also where no thread could be had for it.
  const std::shared_ptr<void> end(nullptr, [shared = shared_](void*) { shared->writing = false; });
  loop_.RunBounded(
      kPatience,
      [shared = shared_, refused, end] {
        if (auto written = shared->Write(); !written) {
          *refused = written.error().message;
        }
      },
      [this, refused](bool in_time) {
        if (IsWell(in_time, kPatience, *refused)) {
          said_ = false;
          if (again_) {
            Write();
          }
        }
      });
}

// A refusal belongs to the thread until it is in time.
bool BackgroundWriter::IsWell(bool in_time, Duration limit, const std::string& refused) {
  if (in_time && refused.empty()) {
    return true;
  }
  if (!std::exchange(said_, true)) {
    Log(LogLevel::kWarning,
        (in_time ? refused
                 : "writing to '" + parts_.place + "' takes longer than " + FormatDuration(limit) +
                       " (is its file system responding?)") +
            ": " + parts_.consequence);
  }
  return false;
}

void BackgroundWriter::Finish(Duration limit) {
  const auto refused = std::make_shared<std::string>();
  const bool in_time = FinishesWithin(limit, [shared = shared_, refused] {
    if (auto written = shared->End(); !written) {
      *refused = written.error().message;
    }
  });
  (void)IsWell(in_time, limit, *refused);
}

}  // namespace ddprun
