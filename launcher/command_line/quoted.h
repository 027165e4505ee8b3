// A word as a shell needs it.
#pragma once

#include <string>

namespace ddprun {

// As it is where no shell would change it, else in single quotes.
std::string Quoted(const std::string& word);

}  // namespace ddprun
