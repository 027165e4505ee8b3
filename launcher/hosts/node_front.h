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

#include <optional>
#include <string>
#include <vector>

namespace ddprun {

// The argument with which the launcher calls ddprun there; with --copy, the path of the program's
// copy follows, or nothing where the program needs none.
inline constexpr const char* kOrderOnStdin = "--order-on-stdin";

// Returns in the process of the launch: its arguments. Its environment has the token and the place,
// its standard input is empty. `copy`: of the program; none: without --copy. Call it before any
// thread exists.
std::vector<std::string> TakeOrder(const std::optional<std::string>& copy);

}  // namespace ddprun
