// Writes a verb's answer on standard output, so that an answer that is lost is an error everywhere.
#pragma once

#include <string>

#include "common/result.h"

namespace ddprun {

// The exit code: 0, or 1 with the reason on stderr where not all of it could be written.
int PrintOut(const std::string& text);

// "ddprun VERB: error: ..." on stderr. The exit code: 2 for bad input, 69 if no server answers,
// else 1.
int PrintError(const std::string& verb, const Error& error);

}  // namespace ddprun
