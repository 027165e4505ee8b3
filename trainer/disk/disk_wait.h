// The waits of a rank for a disk while its peers and its launcher wait for it: reading the
// checkpoint to continue from, writing the last one.
//
// DiskWork does it on a thread, and its owner looks in rounds, so that it can speak to others
// between two looks. DiskWait decides what he does meanwhile: when a line is due that says how long
// it has been, and when a stop has waited for long enough. It never decides that a disk is dead:
// without a stop the wait has no end.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "common/result.h"
#include "common/task_queue.h"

namespace ddprun {

// How long a training waits for a file that it can do without: at its start, and at its end.
inline constexpr std::chrono::milliseconds kMostOpening{2000};
inline constexpr std::chrono::milliseconds kMostFlushing{3000};

// Begins at once. Left behind with what it holds where its owner goes before it is done.
class DiskWork {
 public:
  explicit DiskWork(std::function<Result<void>()> work);

  // The result; none: it is not done within `limit`.
  std::optional<Result<void>> Wait(std::chrono::milliseconds limit);
  // By any thread.
  bool IsDone() const;

 private:
  const std::shared_ptr<std::optional<Result<void>>> outcome_;
  mutable TaskQueue thread_;
};

// A clock that stands while its process does, perhaps with all its peers' (a suspended job): a
// process that stood still itself did not wait for others meanwhile. Pure.
class OwnTime {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::seconds kLongestLook{1};  // More between two looks is left out.

  explicit OwnTime(Time begin) : looked_(begin), own_(begin) {}

  Time Look(Time now);

 private:
  Time looked_;
  Time own_;
};

// Pure: the caller passes the time.
class DiskWait {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::seconds kFirstWord{2};
  static constexpr std::chrono::seconds kLongestSilence{60};
  // A stop waits so long for the disk, and a second more for each so many bytes.
  static constexpr std::chrono::seconds kStopPatience{20};
  static constexpr std::uint64_t kBytesPerSecond = 10'000'000;

  struct Due {
    bool word = false;     // Time to say how long it has been.
    bool give_up = false;  // The stop has waited for long enough.
  };

  // `bytes` are to be read or written.
  DiskWait(Time now, std::uint64_t bytes);

  Due Look(Time now, bool asked_to_stop);
  std::chrono::seconds patience() const { return patience_; }  // Of a stop.
  std::chrono::seconds Lasted(Time now) const;

 private:
  const Time begin_;
  const std::chrono::seconds patience_;
  Time next_word_;
  std::optional<Time> asked_;
};

// How long a disk may take for so many bytes that it need not take.
std::chrono::seconds TimeFor(std::uint64_t bytes);

}  // namespace ddprun
