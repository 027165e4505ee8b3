// Watches a training thread that reads samples, where their file system may not respond.
//
// A watched read costs only a look at the clock. The watch's own thread logs which read lasts and
// for how long, tells the launcher that this rank is alive, and looks for a stop. It never decides
// that a file system has failed. But a rank that has peers ends shortly before they would take it
// for lost, so that the reason comes from the rank whose file system it is.
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
  // The subject of messages: "samples of mnist are being read".
  std::string what;
  // How long a read may take: longer than the peers wait, and they report this rank as lost; none:
  // no peer waits.
  std::optional<std::chrono::milliseconds> limit;
  // Whether a stop was asked for; never unset.
  std::function<bool()> asked_to_stop;
  // Called every few seconds of a read, and tells the launcher that this rank lives; never unset.
  std::function<void()> alive;
  // Ends the process; kUnavailable: for a stop. If it returns, it is called at the next look again.
  std::function<void(const Error&)> give_up;
  // The time between two looks: too long reports a slow read late.
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
