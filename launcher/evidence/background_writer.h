// Writes files beside the loop: on a thread that may be left behind, one write at a time, so that a
// disk that hangs or is full holds nothing up. That is said once, and again once all was well in
// between.
//
// Decides when to write. The owner decides what is written, and what follows if that cannot be
// done.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "common/loop.h"
#include "common/result.h"

namespace ddprun {

class BackgroundWriter {
 public:
  static constexpr Duration kPatience{2'000};  // Of one write; then it is said.

  struct Parts {
    std::string place;        // For people.
    std::string consequence;  // For the message: the loss if it cannot be written.
    // On a thread, never twice at a time; it owns all that it touches.
    std::function<Result<void>()> write;
  };

  BackgroundWriter(Loop& loop, Parts parts);
  BackgroundWriter(const BackgroundWriter&) = delete;
  BackgroundWriter& operator=(const BackgroundWriter&) = delete;

  // On the loop. Where a thread is at it still, the next write begins at its end; if it was left
  // behind, the next call takes along what waits.
  void Write();

  // The loop has ended: waiting data is written, if that is possible within `limit`; else a message
  // reports that. Later nothing is written, nor by a thread that was left behind.
  void Finish(Duration limit);

 private:
  struct Shared;  // With the thread.

  // False: it was not.
  bool IsWell(bool in_time, Duration limit, const std::string& refused);

  Loop& loop_;
  const Parts parts_;
  const std::shared_ptr<Shared> shared_;
  bool said_ = false;
  bool again_ = false;  // Write was called during a write.
};

}  // namespace ddprun
