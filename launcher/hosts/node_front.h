// The first process of a node that `ddprun --hosts` has started on its host: it takes the order on
// its standard input, starts the launch in a process of its own, and stands for the launcher there.
//
//   the launcher says         | the launch's guard gets
//   --------------------------|----------------------------------------------
//   the number of a signal    | that signal
//   still there               | -
//   nothing for kSilenceLimit | SIGTERM, and half a second later SIGKILL, which ends all
//   end of file               | processes of the node
//
// If this process is killed itself, the guard gets SIGKILL from the kernel. It starts no thread.
#pragma once

#include <string>
#include <vector>

namespace ddprun {

// The one argument with which the launcher calls ddprun there.
inline constexpr const char* kOrderOnStdin = "--order-on-stdin";

// Returns in the process of the launch: its arguments. Its environment has the token and the place,
// its standard input is empty. Call it before any thread exists.
std::vector<std::string> TakeOrder();

}  // namespace ddprun
