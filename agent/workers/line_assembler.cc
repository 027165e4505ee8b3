#include "agent/workers/line_assembler.h"

#include <algorithm>
#include <utility>

#include "agent/workers/terminal_text.h"

namespace ddprun {
namespace {

constexpr std::chrono::seconds kBetweenUpdates{1};

}  // namespace

void LineAssembler::Feed(std::string_view bytes, Time now, std::string& lines) {
  while (!bytes.empty()) {
    if (returned_) {
      returned_ = false;
      if (bytes.front() == '\n') {
        EndLine("\r\n", lines);
        bytes.remove_prefix(1);
        continue;
      }
      EndUpdate(now, lines);
    }
    const std::size_t end = EndOfLine(bytes);
    Extend(bytes.substr(0, end), lines);
    if (end == bytes.size()) {
      return;
    }
    if (bytes[end] == '\n') {
      EndLine("\n", lines);
    } else {
      returned_ = true;
    }
    bytes.remove_prefix(end + 1);
  }
}

void LineAssembler::Finish(std::string& lines) {
  if (line_.empty()) {
    line_ = std::exchange(update_, {});
  }
  if (!line_.empty() || open_) {
    EndLine("\n", lines);
  }
  returned_ = false;
}

void LineAssembler::Extend(std::string_view text, std::string& lines) {
  while (line_.size() + text.size() > kMaxLine) {
    const std::size_t fits = kMaxLine - line_.size();
    line_.append(text.substr(0, fits));
    text.remove_prefix(fits);
    EndLine("", lines);
    open_ = true;
  }
  line_.append(text);
}

void LineAssembler::EndLine(std::string_view ending, std::string& lines) {
  lines += open_ ? "" : prefix_;
  lines += line_;
  lines += ending;
  line_.clear();
  open_ = false;
  update_.clear();  // Overwritten, as on a terminal.
}

void LineAssembler::EndUpdate(Time now, std::string& lines) {
  if (line_.empty() && !open_) {
    return;  // A return at the start of a line: the update follows it.
  }
  if (open_ || !shown_at_ || now - *shown_at_ >= kBetweenUpdates) {
    shown_at_ = now;
    EndLine("\n", lines);
    return;
  }
  update_ = std::exchange(line_, {});
}

std::string LinesWithAny(std::string_view lines, const std::vector<std::string>& needles,
                         std::size_t skipped) {
  std::string found;
  while (!lines.empty()) {
    const std::string_view line = lines.substr(0, std::min(lines.find('\n'), lines.size() - 1) + 1);
    lines.remove_prefix(line.size());
    if (std::any_of(needles.begin(), needles.end(), [&](const std::string& needle) {
          return line.find(needle, skipped) != std::string_view::npos;
        })) {
      found += line;
      found += line.ends_with('\n') ? "" : "\n";
    }
  }
  return found;
}

void TailLines::Feed(std::string_view bytes) {
  while (!bytes.empty()) {
    const std::size_t end = EndOfLine(bytes);
    line_.append(bytes.substr(0, std::min(end, kMaxLine - line_.size())));
    if (end == bytes.size()) {
      return;
    }
    EndLine();
    bytes.remove_prefix(end + 1);
  }
}

void TailLines::EndLine() {
  if (line_.empty()) {
    return;
  }
  if (lines_.size() == kLines) {
    lines_.pop_front();
  }
  lines_.push_back(WithoutEscapes(std::exchange(line_, {})));
}

std::vector<std::string> TailLines::Lines() const {
  TailLines whole = *this;
  whole.EndLine();
  return {whole.lines_.begin(), whole.lines_.end()};
}

}  // namespace ddprun
