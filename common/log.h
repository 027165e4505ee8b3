// ddprun's own lines on stderr: "ddprun n03 | text". What the workers print never passes here.
//
// One line per call; control characters in the text are made visible, since text may quote bytes
// of a peer or a worker. Any thread.
#pragma once

#include <string>
#include <string_view>

namespace ddprun {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

// `who` stands before the bar: "ddprun", "ddprun n03". Lines below `least` are dropped.
void StartLog(const std::string& who, LogLevel least);

// `text` with every control character but newline and tab made visible.
std::string Printable(std::string_view text);

void Log(LogLevel level, std::string_view text);

}  // namespace ddprun
