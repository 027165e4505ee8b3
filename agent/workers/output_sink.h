// Where workers' lines go: the agent's stdout or stderr, or a log file that is also shown (tee).
//
// Never blocks the loop. Each sink has a thread that does nothing but write(2), and close(2) at the
// end: readiness cannot be asked for instead, since a file on a hung network file system is always
// "ready" (and is written back when it is closed), another process may fill a pipe between poll and
// write, and O_NONBLOCK would be set for every process that shares the inherited description. The
// thread gets a batch and posts back the outcome; one that is stuck is left behind. Where the
// system refuses a thread, the loop writes what the other side takes at once.
//
// Bounded: a caller asks HasRoom first and stops reading its worker until WhenWritten. If that
// lasts too long for a file (PassOver) its disk hangs: bytes that come until the write under way
// returns are dropped, and the log and the file say so. Bytes that the system refuses (full disk,
// closed pipe) are dropped and logged once; nothing else suffers from it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/files.h"
#include "common/loop.h"
#include "common/task_queue.h"

namespace ddprun {

class OutputSink {
 public:
  static constexpr std::size_t kRoom = 256 * 1024;

  // `name` is for people: "standard output", a path.
  OutputSink(Loop& loop, UniqueFd fd, std::string name);
  ~OutputSink();
  OutputSink(const OutputSink&) = delete;
  OutputSink& operator=(const OutputSink&) = delete;

  // For a file that is full for so long: from now on no worker waits for it.
  static constexpr Duration kPatience{10'000};
  void PassOver();

  // Whole lines, so that another writer to the same pipe never lands inside one; pieces of one that
  // is very long.
  void Append(std::string_view lines);

  // For a console whose reader stands still: its unread output is dropped, and all later output.
  void Leave();

  bool HasRoom() const { return left_ || passed_over_ || pending_.size() < kRoom; }
  const std::string& name() const { return name_; }
  bool Idle() const { return left_ || (pending_.empty() && !writing_); }
  // Nothing was taken for so long.
  bool StandsFor(Duration duration) const { return writing_ && loop_.Now() >= began_ + duration; }

  // Once, on the loop, after the write now under way.
  void WhenWritten(std::function<void()> call);

  // Blocks until everything is written or the limit is over: for a process about to exit.
  void Flush(Duration limit);

 private:
  struct Shared;
  bool WriteOnThread();
  void TryToWrite();
  void StartWriting();
  void OnWritten(int error_number);

  Loop& loop_;
  std::string name_;
  std::shared_ptr<Shared> shared_;
  std::string pending_;
  bool writing_ = false;
  bool complained_ = false;
  bool passed_over_ = false;
  bool left_ = false;
  Time began_;               // The write under way.
  std::size_t dropped_ = 0;  // Bytes, since then.
  std::vector<std::function<void()>> waiting_;
  LoopTimer try_again_;
  TaskQueue queue_;  // Its thread writes, and closes.
};

}  // namespace ddprun
