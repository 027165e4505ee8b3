// Words as a shell needs them.
#pragma once

#include <string>
#include <vector>

namespace ddprun {

// As it is where no shell would change it, else in quotes that csh and fish read alike.
std::string Quoted(const std::string& word);
std::string QuotedLine(const std::vector<std::string>& words);

}  // namespace ddprun
