// Text that programs write for a terminal: the part that shows on one row, and whether it moves the
// cursor elsewhere.
//
// Pure. An escape sequence or a character that is not whole yet is left out.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ddprun {

// The first newline or return, or the size. One search with a set of both is many times slower.
std::size_t EndOfLine(std::string_view bytes);

// True: it holds a sequence other than colours (m) and erasing within its row (K), such as
// the cursor-up of nested progress bars.
bool MovesCursor(std::string_view text);

// `text` without what moves the cursor; showing and hiding it (h, l) stays.
std::string WithoutMoves(std::string_view text);

// `text` as one row: characters and colours, at most kMostOfRow bytes; colours end with it. A
// backspace takes the character before it back. Empty: only spaces would show.
inline constexpr std::size_t kMostOfRow = 4096;
std::string RowText(std::string_view text);

// `text` without escape sequences.
std::string WithoutEscapes(std::string_view text);

// Bytes of `text` up to the last character of UTF-8 that begins at or before `most` and is whole
// there.
std::size_t WholeCharacters(std::string_view text, std::size_t most);

}  // namespace ddprun
