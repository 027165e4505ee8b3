// Watches a training thread that reads samples, where they may lie on a disk that does not answer.
//
// Read there they cost nothing but a look at the clock: a thread of the watch's own says what is
// waited for and for how long, tells the launcher that this rank is alive, and looks for a stop. It
// never decides that a disk is dead; but a rank that has peers ends shortly before these would take
// it for gone, so that people hear the reason from the rank whose disk it is.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>

#include "common/result.h"

namespace ddprun {

struct ReadWatchOptions {
  std::string what;                                // "samples of mnist are being read"
  std::optional<std::chrono::milliseconds> limit;  // Of the peers' patience; none: no peer waits.
  std::function<bool()> asked_to_stop;
  std::function<void()> alive;                // Every few seconds of a read.
  std::function<void(const Error&)> give_up;  // Ends the process; kUnavailable: for a stop.
  std::chrono::milliseconds look{500};
};

class ReadWatch {
 public:
  using Clock = std::chrono::steady_clock;

  explicit ReadWatch(ReadWatchOptions options) : options_(std::move(options)) {}
  ReadWatch(const ReadWatch&) = delete;
  ReadWatch& operator=(const ReadWatch&) = delete;

  // While it lives its thread reads.
  class Reading {
   public:
    explicit Reading(ReadWatch& watch) : watch_(watch) {
      watch_.since_.store(Clock::now().time_since_epoch().count(), std::memory_order_relaxed);
    }
    ~Reading() { watch_.since_.store(0, std::memory_order_relaxed); }
    Reading(const Reading&) = delete;
    Reading& operator=(const Reading&) = delete;

   private:
    ReadWatch& watch_;
  };

 private:
  void Run(const std::stop_token& end);

  const ReadWatchOptions options_;
  std::atomic<Clock::rep> since_{0};  // The read under way; 0: none is.
  std::mutex mutex_;
  std::condition_variable_any ends_;
  std::jthread thread_{[this](const std::stop_token& end) { Run(end); }};  // Last: it uses all.
};

}  // namespace ddprun
