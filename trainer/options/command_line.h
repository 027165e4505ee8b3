// Reads a program's words, and says in its name what is wrong with them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/time.h"

namespace CLI {
class App;
}

namespace ddprun {

// Ends the program before it began: help, version, a wrong command line.
struct EarlyExit {
  int code = 0;
  std::string text;  // For stdout when the code is 0, else for stderr.
};

// Adds a problem unless the value is known: `words` says what the flag takes.
void CheckWord(std::vector<std::string>& problems, bool known, const std::string& flag,
               const std::string& words, const std::string& value);

// Adds a problem unless the value is a time, with or without a unit, in this range.
void CheckTime(std::vector<std::string>& problems, const std::string& flag,
               const std::string& value, Duration least, Duration most);

// The flag that ddprun-train and ddprun-bench-comm share.
inline constexpr const char* kCollectiveTimeoutHelp =
    "Time after which a silent peer counts as lost: 30, 90s, 5m";
void CheckCollectiveTimeout(std::vector<std::string>& problems, const std::string& value);

EarlyExit WrongCommandLine(const CLI::App& app, const std::vector<std::string>& problems);

// Nothing: the words were taken.
std::optional<EarlyExit> ParseWords(CLI::App& app, int argc, const char* const* argv);

}  // namespace ddprun
