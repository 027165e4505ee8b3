#include "launcher/evidence/side_writer.h"

#include <atomic>
#include <mutex>
#include <utility>

#include "common/log.h"

namespace ddprun {

struct SideWriter::Shared {
  explicit Shared(std::function<Result<void>()> how) : write(std::move(how)) {}

  const std::function<Result<void>()> write;
  std::atomic<bool> writing = false;

  std::mutex disk;    // One writes.
  bool over = false;  // Nothing is written any more.

  Result<void> Write() {
    const std::lock_guard one(disk);
    return over ? Result<void>() : write();
  }
  void End() {
    const std::lock_guard one(disk);
    (void)write();
    over = true;
  }
};

SideWriter::SideWriter(Loop& loop, Parts parts)
    : loop_(loop), parts_(std::move(parts)), shared_(std::make_shared<Shared>(parts_.write)) {}

void SideWriter::Write() {
  if (shared_->writing.exchange(true)) {
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
        if (!in_time) {
          SayOnce("writing to '" + parts_.place + "' takes longer than " +
                  FormatDuration(kPatience) + " (does its disk answer?)");
        } else if (!refused->empty()) {
          SayOnce(*refused);
        } else {
          said_ = false;
          if (parts_.waits()) {
            Write();
          }
        }
      });
}

void SideWriter::SayOnce(const std::string& why) {
  if (!std::exchange(said_, true)) {
    Log(LogLevel::kWarning, why + ": " + parts_.consequence);
  }
}

void SideWriter::Finish(Duration limit) {
  (void)FinishesWithin(limit, [shared = shared_] { shared->End(); });
}

}  // namespace ddprun
