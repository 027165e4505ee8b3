// The end of a launch: waits until the readers of the output have read it. They may be slow.
//
// Waits on the loop, as long as it takes. If a reader has gone, writing fails, and that ends the
// wait too. Only a reader that stands still (Ctrl-S) makes it last for ever, so a signal must end
// it (GiveUp). Logs once what it waits for.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "common/loop.h"

namespace ddprun {

// How long the end of a run waits for readers; none: as long as they take. A user who stopped the
// run does not wait for long.
std::optional<Duration> OutputFlushTimeout(int exit_code, bool stopped);

class OutputFlush {
 public:
  explicit OutputFlush(Loop& loop) : loop_(loop), look_again_(loop) {}

  // `done` once all is read, or the limit is over, or at GiveUp; perhaps at once. Not while another
  // one is waited for. `unread`: the output that is not read yet, for people; "": all is read.
  void Begin(std::optional<Duration> limit, std::function<std::string()> unread,
             std::function<void()> done);
  // False: nothing was waited for.
  bool GiveUp();

 private:
  void Look();

  Loop& loop_;
  LoopTimer look_again_;
  std::function<std::string()> unread_;
  std::function<void()> done_;
  Time began_;
  std::optional<Time> end_;
  bool told_ = false;
};

}  // namespace ddprun
