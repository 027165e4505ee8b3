// Decides whether a worker failed with an error that another start cannot heal: the program cannot
// be found or read, cannot be compiled, lacks a module or a name, or refuses its command line.
//
// Pure. Judged by the error file's message, else by the exit code and the last line of stderr, so
// an error that a program only logs before it ends otherwise is not mistaken for its end. An error
// that may heal (a refused connection, a file of data that is missing) is none of these.
//
//   | exit code   | last line of stderr, or the error file's message                            |
//   |-------------|------------------------------------------------------------------------------|
//   | any         | ImportError, SyntaxError, NameError or a subclass (error file)               |
//   | 1           | the same (a traceback ends with it); "python3: No module named x" (-m)       |
//   | 2           | "error:" after a line "usage: ..." (argparse, click); "can't open file", with |
//   |             | Errno 2 (a missing script)                                                   |
//   | 126, 127    | any (a shell cannot execute, or cannot find, the program)                    |
#pragma once

#include <string>

#include "rendezvous/messages/messages.h"

namespace ddprun {

// The line that tells the error, to be compared with the next failure's; empty: it may heal.
std::string PermanentError(const WorkerFailure& failure);

}  // namespace ddprun
