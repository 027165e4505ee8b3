// The end of a launch: what was printed is still on its way to whoever reads it, who may be slow.
//
// Waits on the loop, as long as it takes: who is gone refuses, and that ends a wait too; only a
// reader who stands still (Ctrl-S) makes it last for ever, so a signal must end it (GiveUp). Says
// once what it waits for.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "common/loop.h"

namespace ddprun {

// At the end of a run; none: as long as they take. Who stopped it does not wait for long.
std::optional<Duration> PatienceWithReaders(int exit_code, bool stopped);

class ReaderWait {
 public:
  explicit ReaderWait(Loop& loop) : loop_(loop), look_again_(loop) {}

  // `done` once all is read, or the limit is over, or at GiveUp; perhaps at once. Not while another
  // one is waited for. `unread`: for people, what is not read yet; "": all is.
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
