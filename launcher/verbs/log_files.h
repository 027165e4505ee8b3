// `ddprun logs DIR`: the output of workers that a run has left in its directory below --log-dir.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace ddprun {

// To stdout: the end of each worker's logs, attempt by attempt, each below its name. Of a directory
// without logs the last lines in its newest evidence. `lines`: the last ones of each file alone. 0;
// 1: there are none; 2: it is no directory.
int PrintLogFiles(const std::string& directory, std::optional<std::uint32_t> lines);

}  // namespace ddprun
