// `ddprun logs DIR`: the output of workers that a run has left in its directory below --log-dir.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/result.h"

namespace ddprun {

// Whether a word of the command line can only be a directory, as it is no name of a run.
inline bool NamesDirectory(const std::string& word) {
  return word.find('/') != std::string::npos || word == "." || word == "..";
}

// Whether PrintLogFiles would print something.
bool HasLogFiles(const std::string& directory);

// To stdout: the end of each worker's logs, attempt by attempt, each below its name. Of a directory
// without logs the last lines in its newest evidence. `lines`: the last ones of each file alone. 0;
// 1: there are none; 2: it is no directory.
int PrintLogFiles(const std::string& directory, std::optional<std::uint32_t> lines);

// A --log-dir with one run directory stands for that one. kInvalid: it has several, of several runs
// or of one run's nodes; the error names the newest. Any other directory stands for itself.
Result<std::string> OneRunDirectory(const std::string& directory, const std::string& verb);

}  // namespace ddprun
