// Reads where a Python stands from its stack, as py-spy, ddprun's package and faulthandler print
// it.
#pragma once

#include <string>
#include <string_view>

namespace ddprun {

// "w.py:4 in wait": of the first stack with one, the innermost frame that is of the program, and of
// no library. Empty: there is none.
std::string InnermostFrame(std::string_view stacks);

}  // namespace ddprun
