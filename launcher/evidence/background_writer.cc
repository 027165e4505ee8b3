#include "launcher/evidence/background_writer.h"

#include <atomic>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

#include "common/log.h"

namespace ddprun {

struct BackgroundWriter::Shared {
  explicit Shared(std::size_t most) : room(most) {}

  const std::size_t room;
  std::atomic<bool> writing = false;

  std::mutex mutex;  // Of the next.
  std::deque<Task> waiting;

  std::mutex disk;    // One writes.
  bool over = false;  // Nothing is written any more.

  void Put(std::deque<Task> older, std::optional<Task> newest) {
    const std::lock_guard lock(mutex);
    waiting.insert(waiting.begin(), older.begin(), older.end());
    if (newest) {
      waiting.push_back(*std::move(newest));
    }
    while (waiting.size() > room) {
      waiting.pop_front();
    }
  }

  std::deque<Task> Take() {
    const std::lock_guard lock(mutex);
    return std::exchange(waiting, {});
  }

  bool Waits() {
    const std::lock_guard lock(mutex);
    return !waiting.empty();
  }

  // One that cannot be written keeps no other from it.
  Result<void> Write(bool last) {
    const std::lock_guard one(disk);
    if (over && !last) {
      return {};
    }
    over = last;
    Result<void> all;
    std::deque<Task> refused;
    for (Task& task : Take()) {
      if (Result<void> written = task(); !written) {
        refused.push_back(std::move(task));
        all = all ? written : all;
      }
    }
    Put(std::move(refused), {});
    return all;
  }
};

BackgroundWriter::BackgroundWriter(Loop& loop, Parts parts)
    : loop_(loop), parts_(std::move(parts)), shared_(std::make_shared<Shared>(parts_.room)) {}

void BackgroundWriter::Write(Task task) {
  shared_->Put({}, std::move(task));
  Start();
}

void BackgroundWriter::WriteAgain() {
  if (shared_->Waits()) {
    Start();
  }
}

void BackgroundWriter::Start() {
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
        if (auto written = shared->Write(/*last=*/false); !written) {
          *refused = written.error().message;
        }
      },
      [this, refused](bool in_time) {
        if (IsWell(in_time, kPatience, *refused)) {
          said_ = false;
          if (again_) {
            Start();
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
    if (auto written = shared->Write(/*last=*/true); !written) {
      *refused = written.error().message;
    }
  });
  (void)IsWell(in_time, limit, *refused);
}

}  // namespace ddprun
