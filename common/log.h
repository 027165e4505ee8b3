// ddprun's own lines on stderr: "ddprun n03 | text", with "warning: " or "error: " before the text
// of those levels. The workers' output never passes here.
//
// Or, for programs that collect them, a line of JSON each:
//   {"unix_time":1795566552.358,"level":"warning","who":"ddprun n03","text":"..."}
// Nothing is coloured then, and nothing made visible twice: JSON's own escapes do that, and bytes
// that are no UTF-8 are replaced.
//
// One line per call; control characters in the text are made visible, since text may quote bytes
// of a peer or a worker. Any thread. Written at once, until QueueLog is called. On a terminal what
// stands before the bar is yellow for a warning, red for an error; NO_COLOR, CLICOLOR_FORCE and
// TERM=dumb mean what they mean everywhere.
#pragma once

#include <string>
#include <string_view>

#include "common/time.h"

namespace ddprun {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

enum class LogFormat { kText, kJson };
// Of all that is said from now on. Before other threads say anything.
void SetLogFormat(LogFormat format);

// `who` stands before the bar: "ddprun", "ddprun n03". Lines below `least` are dropped.
void StartLog(const std::string& who, LogLevel least);

// From here on no caller waits for stderr: lines are handed to a thread (common/line_writer.h). For
// a process whose loop others depend on; it does not fork afterwards, and calls FlushLog before it
// ends.
void QueueLog();

// Blocks until stderr has taken every line, or the limit is over. True: it has. Nothing without
// QueueLog.
bool FlushLog(Duration limit);

// From here on an uncaught exception, on any thread, ends the process with this code, after one
// line that takes no memory. Within two seconds, even if stderr is not read.
void EndOnException(int exit_code);

// `text` with every control character but newline and tab made visible, also those beyond ASCII
// (C1, directions), and every byte that is no UTF-8.
std::string Printable(std::string_view text);
// The same for text that must be one line: a newline is visible too.
std::string PrintableLine(std::string_view text);
// The same for a message that quotes a user's word: of a long text only beginning and end are
// shown.
std::string InOneLine(std::string_view text);

void Log(LogLevel level, std::string_view text);

// Whole lines among the others, as they are: a report, an event for programs.
void LogAsIs(std::string_view lines);

// Lines that belong together: as they are, or one line of JSON with all of them.
void LogReport(LogLevel level, std::string_view lines);

// The line that a process without a log writes: `plain`, or `text` as a line of JSON; with its end.
std::string InLogFormat(LogLevel level, std::string_view text, const std::string& plain);

// Said before the log is set up: "ddprun: error: ..." or "ddprun: warning: ...", else as a line of
// the log.
void Announce(LogLevel level, std::string_view text);

// `text` in the colour of `level`, if stderr is to have colours.
std::string Colored(LogLevel level, const std::string& text);

// "ddprun: error:", for a message that is printed before the log is set up.
std::string Heading(LogLevel level, const std::string& name);

// Whether stderr is to have colours: looked up once.
bool ColorsOnStderr();

// From now on another writer leaves rows below the log's lines, from the terminal's cursor on: they
// are erased before each line. Only after QueueLog, and where stderr is a terminal.
void EraseBelowLog();

// One line below all others that is written over in place, for what changes every second; only
// where stderr is a terminal, and after QueueLog. Empty: none. Cut to the terminal's width.
void SetLiveLine(std::string_view text);

}  // namespace ddprun
