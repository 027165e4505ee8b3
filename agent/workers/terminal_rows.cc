#include "agent/workers/terminal_rows.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "agent/workers/terminal_text.h"

namespace ddprun {
namespace {

constexpr const char* kEraseBelow = "\x1b[J";
constexpr const char* kEraseRow = "\x1b[K";
constexpr const char* kCutAtEdge = "\x1b[?7l";
constexpr const char* kWrapAtEdge = "\x1b[?7h";

}  // namespace

TerminalRows::Stream TerminalRows::Add(std::string prefix, std::string name) {
  streams_[next_] = {.prefix = std::move(prefix), .name = std::move(name)};
  return next_++;
}

void TerminalRows::Feed(Stream stream, std::string_view bytes, Time now, std::string& out) {
  Line& line = streams_.at(stream);
  std::string lines;
  while (!bytes.empty()) {
    const std::size_t end = EndOfLine(bytes);
    if (end > 0) {
      if (std::exchange(line.returned, false)) {
        BeginAnew(stream, lines);
      }
      Grow(stream, bytes.substr(0, end), lines);
    }
    if (end == bytes.size()) {
      break;
    }
    if (bytes[end] == '\n') {
      EndLine(stream, lines);
    } else {
      line.returned = true;
    }
    bytes.remove_prefix(end + 1);
  }
  if (!lines.empty()) {
    Put(lines, out);
  }
  if (!due_ && line.text.size() > line.passed) {
    due_ = now + kBetweenDraws;
  }
}

void TerminalRows::Grow(Stream stream, std::string_view text, std::string& lines) {
  Line& line = streams_.at(stream);
  while (line.text.size() + text.size() > kMaxLine) {
    const std::size_t fits = WholeCharacters(text, kMaxLine - line.text.size());
    line.text += text.substr(0, fits);
    text.remove_prefix(fits);
    EndLine(stream, lines);
  }
  line.text += text;
}

// After a return: the old text is overwritten.
void TerminalRows::BeginAnew(Stream stream, std::string& lines) {
  Line& line = streams_.at(stream);
  if (MovesCursor(std::string_view(line.text).substr(line.passed))) {
    Pass(stream, lines);
  }
  // Spaces erase a bar (tqdm's leave=False): the text after them is a line like others.
  line.bar = line.text.empty() || !RowText(line.text).empty();
  line.text.clear();
  line.passed = 0;
}

void TerminalRows::EndLine(Stream stream, std::string& lines) {
  Line& line = streams_.at(stream);
  const std::string_view rest = std::string_view(line.text).substr(line.passed);
  below_ = MovesCursor(rest) ? stream : below_;
  // The other stream's line has ended this one too, and what comes next is still apart from it.
  const bool ended = line.apart && line.passed > 0 && rest.empty();
  if (!ended) {
    if (line.passed == 0) {
      BeginRow(stream, lines);
      lines += line.bar ? line.name : line.prefix;
    }
    lines += line.apart && MovesCursor(rest) ? WithoutMoves(rest) : rest;
    lines += "\n";
  }
  inside_.reset();
  line = {.prefix = std::move(line.prefix), .name = std::move(line.name), .apart = ended};
  for (auto& [other, others] : streams_) {
    others.apart |= other != stream;
  }
}

void TerminalRows::Pass(Stream stream, std::string& lines) {
  Line& line = streams_.at(stream);
  const std::string_view rest = std::string_view(line.text).substr(line.passed);
  if (line.passed == 0 && !RowText(line.text).empty()) {
    BeginRow(stream, lines);
    lines += line.name;
  }
  below_ = MovesCursor(rest) ? stream : below_;
  lines += std::exchange(line.apart, false) ? WithoutMoves(rest) : rest;
  line.passed = line.text.size();
  line.row.clear();
  inside_ = stream;
}

// Rows of another stream from the cursor on are in the way.
void TerminalRows::BeginRow(Stream stream, std::string& lines) {
  const bool in_the_way = (inside_ && inside_ != stream) || (below_ && below_ != stream);
  if (inside_ || in_the_way) {
    lines += "\r";
    lines += in_the_way ? kEraseBelow : kEraseRow;
  }
  inside_.reset();
  if (in_the_way) {
    below_.reset();
  }
}

void TerminalRows::End(Stream stream, std::string& out) {
  Line& line = streams_.at(stream);
  std::string lines;
  const bool had_row = !line.row.empty();
  if (!RowText(line.text).empty()) {
    EndLine(stream, lines);
  } else if (MovesCursor(std::string_view(line.text).substr(line.passed))) {
    Pass(stream, lines);
  }
  streams_.erase(stream);
  if (had_row || !lines.empty()) {
    Put(lines, out);
  }
}

void TerminalRows::TakeDue(Time now, std::string& out) {
  if (!due_ || now < *due_) {
    return;
  }
  due_.reset();
  std::string passed;
  bool differs = false;
  for (auto& [stream, line] : streams_) {
    const std::string_view rest = std::string_view(line.text).substr(line.passed);
    if (!rest.empty() && (line.passed > 0 || MovesCursor(rest))) {
      Pass(stream, passed);
    } else if (line.passed == 0) {
      const std::string text = RowText(line.text);
      const std::string row = text.empty() ? "" : line.name + text;
      differs |= row != line.row;
      line.row = row;
    }
  }
  if (differs || !passed.empty()) {
    Put(passed, out);
  }
}

void TerminalRows::Put(const std::string& lines, std::string& out) {
  if (const std::size_t rows = std::exchange(drawn_, 0); rows > 0) {
    out += rows == 1 ? kEraseRow : kEraseBelow;  // Below a single one a nested bar may be.
  }
  out += lines;
  Draw(out);
}

void TerminalRows::Draw(std::string& out) {
  std::vector<const std::string*> rows;
  std::optional<Stream> first;
  for (const auto& [stream, line] : streams_) {
    if (!line.row.empty() && rows.size() + 1 < std::max<std::size_t>(height_, 2)) {
      first = first.value_or(stream);
      rows.push_back(&line.row);
    }
  }
  if (rows.empty()) {
    return;
  }
  BeginRow(*first, out);
  out += kCutAtEdge;
  for (const std::string* const row : rows) {
    out += (row == rows.front() ? "" : "\n") + *row;
  }
  out += kWrapAtEdge;
  out += rows.size() > 1 ? "\x1b[" + std::to_string(rows.size() - 1) + "A" : "";
  out += "\r";
  drawn_ = rows.size();
}

}  // namespace ddprun
