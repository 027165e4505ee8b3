// Lines for a terminal, pipe or file whose other side may stand still: the caller never waits.
//
// A thread that does nothing but write(2), started at the first line. Where the system refuses a
// thread, each call writes what the other side takes at once. Bounded: a line that does not fit is
// dropped, and counted at its place among the lines once there is room again. Order is kept. Bytes
// that the system refuses (full disk, closed pipe) are dropped. Any thread may call. A thread does
// not survive fork(): a process that has put a line must not fork.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "common/time.h"

namespace ddprun {

class LineWriter {
 public:
  // Does not own `fd`. At most `room` bytes wait, beside those that are being written.
  LineWriter(int fd, std::size_t room);
  // Leaves a thread that is stuck in write(2) behind; it touches nothing of this object's.
  ~LineWriter();
  LineWriter(const LineWriter&) = delete;
  LineWriter& operator=(const LineWriter&) = delete;

  // How the words that lines were dropped become a line.
  void SetWording(std::function<std::string(const std::string& text)> line_of);

  // Whole lines.
  void Put(std::string_view lines);

  // One line below all others that is written over in place; empty: none. For a terminal.
  void SetLive(std::string_view text);

  // Lines from now on erase first what is below them: rows that another writer has left from the
  // terminal's cursor on.
  void EraseBelow();

  // Blocks until everything is written or the limit is over. True: it is.
  bool Flush(Duration limit);

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;  // With the thread.
};

// Whole lines to `fd`: a pipe keeps up to PIPE_BUF bytes together, so lines are grouped up to that,
// and another writer to the same pipe never lands inside one. Blocks; from now on the calling
// thread gets no SIGPIPE. 0, or the error number of the first refusal.
int WriteLines(int fd, std::string_view lines);

// The same for at most `limit`, which may be 0: `lines` keeps what the other side has not taken.
// Bytes that the system refuses are dropped.
int WriteWithin(int fd, std::string& lines, Duration limit);

}  // namespace ddprun
