// A terminal of its own for one stream of a worker, where the agent's own stream is one.
//
// Raw, so bytes come as they were written. No session has it as its controlling terminal: no key,
// hangup or job control reaches a worker through it. The agent's end has end of file (EIO) once the
// last process has closed the worker's.
#pragma once

#include "common/files.h"
#include "common/result.h"

namespace ddprun {

// The agent's end as the reader and the worker's as the writer, with the window of the terminal
// `like`. Where the system gives none (no /dev/ptmx, too many) the error says why.
Result<Pipe> OpenTerminal(int like);

// The window of the terminal `from` becomes that of `to`, which may be no terminal.
void CopyWindow(int from, int to);

// Both are the same terminal, by whatever name it was opened.
bool IsSameTerminal(int one, int other);

// It can be drawn over in place: a terminal, and TERM is neither empty nor dumb.
bool CanBeDrawnOver(int fd);

}  // namespace ddprun
