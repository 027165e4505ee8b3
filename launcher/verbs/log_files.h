// `ddprun logs DIR`: the output of workers that a run has left in its directory below --log-dir.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

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

// A --log-dir in which one run wrote stands for the directories of its nodes, the newest first.
// kInvalid: several runs did; the error names the newest directories. Any other directory stands
// for itself.
Result<std::vector<std::filesystem::path>> DirectoriesOfRun(const std::filesystem::path& directory);

}  // namespace ddprun
