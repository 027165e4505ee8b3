#include "agent/workers/terminal_text.h"

#include <algorithm>

namespace ddprun {
namespace {

constexpr char kEsc = '\x1b';

// One escape sequence at the start of a text.
struct Sequence {
  std::size_t size = 0;  // 0: it does not end in this text.
  bool colors = false;
  bool stays = false;  // On its row.
  bool mode = false;   // Such as the cursor hidden.
};

Sequence SequenceAt(std::string_view text) {
  if (text.size() < 2) {
    return {};
  }
  if (text[1] == '[') {  // CSI: parameters, then one byte that says what it does.
    for (std::size_t i = 2; i < text.size(); ++i) {
      if (text[i] < ' ' || text[i] > '?') {
        return {.size = i + 1,
                .colors = text[i] == 'm',
                .stays = text[i] == 'm' || text[i] == 'K',
                .mode = text[i] == 'h' || text[i] == 'l'};
      }
    }
    return {};
  }
  if (text[1] == ']') {  // OSC, such as a link or a window's title: to BEL or ESC \.
    for (std::size_t i = 2; i < text.size(); ++i) {
      if (text[i] == '\a' || (text[i] == '\\' && text[i - 1] == kEsc)) {
        return {.size = i + 1, .stays = true};
      }
    }
    return {};
  }
  return {.size = 2};
}

bool IsContinuation(char byte) {
  return (static_cast<unsigned char>(byte) & 0xc0) == 0x80;
}

std::size_t CharacterSize(char first) {
  const auto byte = static_cast<unsigned char>(first);
  return byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
}

void TakeBack(std::string& row) {
  while (!row.empty() && IsContinuation(row.back())) {
    row.pop_back();
  }
  if (!row.empty()) {
    row.pop_back();
  }
}

// `text` with those of its sequences that `keep` wants; one that does not end is left out.
std::string WithSequences(std::string_view text, bool (*keep)(const Sequence&)) {
  std::string kept;
  while (true) {
    const std::size_t at = std::min(text.find(kEsc), text.size());
    kept += text.substr(0, at);
    text.remove_prefix(at);
    const Sequence sequence = text.empty() ? Sequence{} : SequenceAt(text);
    if (sequence.size == 0) {
      return kept;
    }
    kept += keep(sequence) ? text.substr(0, sequence.size) : std::string_view();
    text.remove_prefix(sequence.size);
  }
}

}  // namespace

std::size_t EndOfLine(std::string_view bytes) {
  const std::string_view line = bytes.substr(0, bytes.find('\n'));
  return std::min(line.find('\r'), line.size());
}

bool MovesCursor(std::string_view text) {
  for (std::size_t at = text.find(kEsc); at != std::string_view::npos; at = text.find(kEsc, at)) {
    const Sequence sequence = SequenceAt(text.substr(at));
    if (sequence.size == 0) {
      return false;
    }
    if (!sequence.stays) {
      return true;
    }
    at += sequence.size;
  }
  return false;
}

std::string RowText(std::string_view text) {
  std::string row;
  bool colored = false;
  bool blank = true;
  while (!text.empty() && row.size() < kMostOfRow) {
    const char byte = text.front();
    std::size_t size = 1;
    if (byte == kEsc) {
      const Sequence sequence = SequenceAt(text);
      if (sequence.size == 0) {
        break;
      }
      size = sequence.size;
      row += sequence.colors ? text.substr(0, size) : std::string_view();
      colored |= sequence.colors;
    } else if (byte == '\b' && !colored) {  // Behind a colour its bytes would be taken back.
      TakeBack(row);
    } else if (byte == '\t' || static_cast<unsigned char>(byte) >= ' ') {
      row.push_back(byte == '\x7f' ? ' ' : byte);
      blank &= byte == ' ' || byte == '\t';
    }
    text.remove_prefix(size);
  }
  if (blank) {
    return "";
  }
  row.resize(WholeCharacters(row, std::min(row.size(), kMostOfRow)));
  return row + (colored ? "\x1b[m" : "");
}

std::string WithoutEscapes(std::string_view text) {
  return WithSequences(text, [](const Sequence&) { return false; });
}

std::string WithoutMoves(std::string_view text) {
  return WithSequences(text, [](const Sequence& one) { return one.stays || one.mode; });
}

std::size_t WholeCharacters(std::string_view text, std::size_t most) {
  std::size_t begin = most;
  for (int back = 0; begin > 0 && back < 4; ++back) {
    --begin;
    if (!IsContinuation(text[begin])) {
      return begin + CharacterSize(text[begin]) > most ? begin : most;
    }
  }
  return most;
}

}  // namespace ddprun
