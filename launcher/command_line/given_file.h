// Reads a file that the user named, once: an ordinary file, or a pipe that a shell makes of <(...).
// A pipe is waited for, since its writer may have to ask a user first. A message says so, and the
// wait has a limit.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>

#include "common/result.h"
#include "common/time.h"

namespace ddprun {

struct GivenPatience {
  // The longest wait: too short fails while a user types a password, too long hides a dead writer.
  Duration limit{60'000};
  // The wait after which a message names the file: 0 gives one for every pipe.
  Duration named{1'000};
  // Prints that message, once.
  std::function<void(const std::string&)> say;
};

// For `say`, before the log is set up: a warning.
void SayWait(const std::string& text);

Result<std::string> ReadGiven(const std::filesystem::path& path, std::size_t max_bytes,
                              const GivenPatience& patience);

}  // namespace ddprun
