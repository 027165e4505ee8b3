#include "trainer/disk/disk_wait.h"

#include <algorithm>
#include <new>
#include <utility>

namespace ddprun {

DiskWork::DiskWork(std::function<Result<void>()> work)
    : outcome_(std::make_shared<std::optional<Result<void>>>()) {
  thread_.Post([outcome = outcome_, work = std::move(work)] {
    try {
      *outcome = work();
    } catch (const std::bad_alloc&) {
      *outcome = Error{ErrorKind::kSystem, "out of memory"};
    }
  });
}

std::optional<Result<void>> DiskWork::Wait(std::chrono::milliseconds limit) {
  return thread_.Drain(limit) ? *outcome_ : std::nullopt;
}

bool DiskWork::IsDone() const {
  return thread_.Drain(std::chrono::milliseconds(0));
}

OwnTime::Time OwnTime::Look(Time now) {
  own_ += std::min<Time::duration>(now - looked_, kLongestLook);
  looked_ = now;
  return own_;
}

DiskWait::DiskWait(Time now, std::uint64_t bytes)
    : begin_(now), patience_(kStopPatience + TimeFor(bytes)), next_word_(now + kFirstWord) {}

DiskWait::Due DiskWait::Look(Time now, bool asked_to_stop) {
  if (asked_to_stop && !asked_) {
    asked_ = now;
  }
  Due due;
  due.give_up = asked_ && now - *asked_ >= patience_;
  due.word = now >= next_word_;
  while (now >= next_word_) {  // After 2, 4, 8, ... seconds, then every minute.
    next_word_ += std::min<Time::duration>(next_word_ - begin_, kLongestSilence);
  }
  return due;
}

std::chrono::seconds DiskWait::Lasted(Time now) const {
  return std::chrono::duration_cast<std::chrono::seconds>(now - begin_);
}

std::chrono::seconds TimeFor(std::uint64_t bytes) {
  return std::chrono::seconds(bytes / DiskWait::kBytesPerSecond);
}

}  // namespace ddprun
