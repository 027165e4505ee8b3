// What ddprun's own lines look like: "ddprun n03 | text", or for programs that collect them a line
// of JSON each:
//
//   {"unix_time":1795566552.358,"level":"warning","who":"ddprun n03","text":"..."}
//
// In that form nothing is coloured and nothing is made visible twice: JSON's own escapes do that,
// and bytes that are no UTF-8 are replaced.
#pragma once

#include <string>
#include <string_view>

#include "common/log.h"

namespace ddprun {

enum class LogFormat { kText, kJson };

// Of all that is said from now on. Before other threads say anything.
void SetLogFormat(LogFormat format);

// Lines that belong together: as they are, or one line of JSON with all of them.
void LogReport(LogLevel level, std::string_view lines);

// What a process writes that has no log: `plain`, or `text` as a line of JSON; with its end.
std::string InLogFormat(LogLevel level, std::string_view text, const std::string& plain);

}  // namespace ddprun
