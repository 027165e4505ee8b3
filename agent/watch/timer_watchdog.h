// torchrun's file-timer watchdog: workers write to a FIFO by when they must have got through a
// piece of work; a worker that does not is signalled.
//
// Kills only workers of the generation that runs, never the agent (torchrun's takes itself along).
// Bounded: so many timers, lines of the size a pipe keeps together, one piece per loop iteration.
// The times are the workers' wall clock, which is this machine's.
#pragma once

#include <boost/asio/posix/stream_descriptor.hpp>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "agent/watch/timer_request.h"
#include "common/asio_loop.h"
#include "common/lifetime.h"
#include "common/result.h"

namespace ddprun {

class TimerWatchdog {
 public:
  // Called on the loop for a timer that is over; whether its pid is a worker is for `expire` to
  // find out.
  TimerWatchdog(AsioLoop& loop, std::function<void(const TimerRequest& request)> expire);
  ~TimerWatchdog();
  TimerWatchdog(const TimerWatchdog&) = delete;
  TimerWatchdog& operator=(const TimerWatchdog&) = delete;

  // Makes the FIFO, mode 0600; one that is there is replaced, anything else refused. Removed with
  // this object.
  Result<void> Listen(const std::filesystem::path& path);

  // Timers of workers that are gone mean nothing.
  void Forget();

 private:
  void Wait();
  void ReadOnePiece();
  void Take(std::string_view line);
  void Complain(const std::string& what);
  void LookAtTimers();

  AsioLoop& loop_;
  const std::function<void(const TimerRequest&)> expire_;
  boost::asio::posix::stream_descriptor pipe_;
  LoopTimer timer_;
  std::filesystem::path path_;
  std::string text_;
  std::map<std::pair<std::int64_t, std::string>, TimerRequest> timers_;
  bool complained_ = false;
  const Lifetime life_;
};

}  // namespace ddprun
