// Writes files beside the loop: on a thread that may be left behind, one after the other, so that a
// disk that hangs or is full holds nothing up. That is said once, and again once all was well in
// between. What the disk refuses is tried again with the next write.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "common/loop.h"
#include "common/result.h"

namespace ddprun {

class BackgroundWriter {
 public:
  static constexpr Duration kPatience{2'000};  // Of one write; then it is said.

  // On a thread, never two at a time; it owns all that it touches.
  using Task = std::function<Result<void>()>;

  struct Parts {
    std::string place;        // For people.
    std::string consequence;  // For the message: the loss if it cannot be written.
    std::size_t room = 0;     // Tasks that may wait; beyond that the oldest goes.
  };

  BackgroundWriter(Loop& loop, Parts parts);
  BackgroundWriter(const BackgroundWriter&) = delete;
  BackgroundWriter& operator=(const BackgroundWriter&) = delete;

  // On the loop. Where a thread is at it still, the next write begins at its end; if it was left
  // behind, the next call takes along what waits.
  void Write(Task task);
  // Writes the tasks that wait, if any.
  void WriteAgain();

  // The loop has ended: waiting data is written, if that is possible within `limit`; else a message
  // reports that. Later nothing is written, nor by a thread that was left behind.
  void Finish(Duration limit);

 private:
  struct Shared;  // With the thread.

  void Start();
  // False: it was not.
  bool IsWell(bool in_time, Duration limit, const std::string& refused);

  Loop& loop_;
  const Parts parts_;
  const std::shared_ptr<Shared> shared_;
  bool said_ = false;
  bool again_ = false;  // Write was called during a write.
};

}  // namespace ddprun
