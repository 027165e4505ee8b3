// Composes the output for a terminal that several workers share: whole lines as they end, and below
// them one row for each line that has not ended yet, such as a progress bar, which is drawn over in
// place.
//
// Pure and bounded; the caller passes the time. Of one stream:
//
//   its line | text          | \r       | \n           | kBetweenDraws later | end of the stream
//   ---------|---------------|----------|--------------|---------------------|------------------
//   Empty    | Growing       | Returned | an empty one |                     |
//   Growing  | Growing       | Returned | line; Empty  | its row is drawn    | line
//   Returned | begins anew,  | Returned | line; Empty  | its row is drawn    | line
//            | as a bar's    |          |              |                     |
//
// A bar's line and a row begin with the name of its worker. Text that moves the cursor (nested
// bars) is passed on as it is, once, and never left out: later text relies on that place. Where
// another stream's line came between, it does without the moves, which would lead there.
//
// The cursor waits at the start of the first row, so another writer who erases from there on
// (LineWriter) spoils no line. Rows are cut at the terminal's edge, by the terminal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "common/time.h"

namespace ddprun {

class TerminalRows {
 public:
  static constexpr Duration kBetweenDraws{200};
  static constexpr std::size_t kMaxLine = 64 * 1024;  // A longer one is broken there.

  using Stream = std::uint64_t;

  // Before its lines: `prefix`; before its bars' lines and its rows: `name`.
  Stream Add(std::string prefix, std::string name);

  // Rows of the terminal; 0: not known.
  void SetHeight(std::size_t height) { height_ = height == 0 ? kUsualHeight : height; }

  // Appends to `out` what the terminal is to be sent now.
  void Feed(Stream stream, std::string_view bytes, Time now, std::string& out);
  // The stream has ended: its unfinished text becomes its last line, and its state is dropped.
  void End(Stream stream, std::string& out);

  // The cursor is at the start of a row that nothing was sent to.
  bool AtFreshRow() const { return drawn_ == 0 && !inside_; }

  // When something is to be drawn; nullopt: nothing.
  std::optional<Time> due() const { return due_; }
  void TakeDue(Time now, std::string& out);

 private:
  static constexpr std::size_t kUsualHeight = 24;

  struct Line {
    std::string prefix;
    std::string name;
    std::string text;        // So far.
    std::size_t passed = 0;  // Of it, passed on as it is.
    bool returned = false;   // A \r followed.
    bool bar = false;        // It has been begun anew.
    std::string row;         // As drawn last; empty: it has none.
    bool apart = false;      // Another stream's line came after what was passed on.
  };

  void Grow(Stream stream, std::string_view text, std::string& lines);
  void BeginAnew(Stream stream, std::string& lines);
  void EndLine(Stream stream, std::string& lines);
  void Pass(Stream stream, std::string& lines);
  void BeginRow(Stream stream, std::string& lines);
  void Put(const std::string& lines, std::string& out);
  void Draw(std::string& out);

  std::map<Stream, Line> streams_;
  Stream next_ = 0;
  std::size_t height_ = kUsualHeight;
  std::size_t drawn_ = 0;  // So many rows are there, from the cursor on.
  // The cursor is somewhere in rows that were passed on, of this stream.
  std::optional<Stream> inside_;
  std::optional<Stream> below_;  // Rows of this stream may be below the cursor: it went up.
  std::optional<Time> due_;
};

}  // namespace ddprun
