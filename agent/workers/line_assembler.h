// Bytes of a worker's stream, as they come, to whole lines for a console that several workers
// share.
//
// Pure and bounded: a line is held until it ends or has kMaxLine bytes (then it is given out in
// pieces, and stays one line while no other worker's comes between). A progress bar's updates,
// which end in a lone carriage return, become lines too, at most one per second and the last one
// always, since a return would overwrite others' lines.
#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/time.h"

namespace ddprun {

class LineAssembler {
 public:
  static constexpr std::size_t kMaxLine = 64 * 1024;

  // The prefix stands before each line; empty: none.
  explicit LineAssembler(std::string prefix) : prefix_(std::move(prefix)) {}

  // Appends to `lines` what `bytes` completes.
  void Feed(std::string_view bytes, Time now, std::string& lines);

  // Appends what is left as a last, completed line.
  void Finish(std::string& lines);

  // The text appended so far ends within a line, and continues there without a prefix.
  bool open() const { return open_; }

 private:
  void Extend(std::string_view text, std::string& lines);
  void EndLine(std::string_view ending, std::string& lines);
  void EndUpdate(Time now, std::string& lines);

  std::string prefix_;
  std::string line_;              // The text that was not given out, of a line without its end.
  bool open_ = false;             // A part of this line was given out, with its prefix.
  bool returned_ = false;         // The line was followed by \r; the next byte shows its meaning.
  std::string update_;            // The newest progress update that was not shown.
  std::optional<Time> shown_at_;  // When an update was shown last.
};

// Those of `lines` (each with its end, which the last may lack) in which any of `needles` occurs
// after their first `skipped` bytes, the prefix.
std::string LinesWithAny(std::string_view lines, const std::vector<std::string>& needles,
                         std::size_t skipped);

// The last lines of a stream, for the message about a failure: at most kLines of kMaxLine bytes,
// without colours.
class TailLines {
 public:
  static constexpr std::size_t kLines = 20;
  static constexpr std::size_t kMaxLine = 4096;

  void Feed(std::string_view bytes);
  // Oldest first, the unfinished line too; empty lines are not kept.
  std::vector<std::string> Lines() const;

 private:
  void EndLine();

  std::deque<std::string> lines_;
  std::string line_;
};

}  // namespace ddprun
