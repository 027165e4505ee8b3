// `ddprun example NAME`: a program to begin with, from examples/.
#pragma once

#include <string>

#include "launcher/verbs/verb_line.h"

namespace ddprun {

// The program; empty where there is no example of that name.
std::string ParseExample(VerbLine& line);

}  // namespace ddprun
