// Writes a verb's answer on standard output, so that an answer that is lost is an error everywhere.
#pragma once

#include <string>

namespace ddprun {

// The exit code: 0, or 1 with the reason on stderr where not all of it could be written.
int PrintOut(const std::string& text);

}  // namespace ddprun
