// A file that the user named for us to read once: an ordinary one, or what a shell makes of <(...).
// A path that is not a file is waited for, since its writer may have to ask a user first; never in
// silence, and never for ever.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>

#include "common/result.h"
#include "common/time.h"

namespace ddprun {

struct GivenPatience {
  Duration limit{60'000};
  Duration named{1'000};                        // Then a message says so,
  std::function<void(const std::string&)> say;  // once, what is waited for.
};

// A warning before the log is set up, for `say`.
void SayWait(const std::string& text);

Result<std::string> ReadGiven(const std::filesystem::path& path, std::size_t max_bytes,
                              const GivenPatience& patience);

}  // namespace ddprun
