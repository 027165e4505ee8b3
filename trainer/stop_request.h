// TERM, INT, USR1 and USR2 as a request: save at the next step that all ranks agree on, and end.
// URG as another one: save, and continue.
//
// Decides only for this process: until Catch, and for a signal that says "end at once"
// (proto/stop_signal.h), the process ends as it would without a handler. The trainer decides about
// other processes' requests, and at which step all stop. A second INT ends a lone process at once.
#pragma once

#include <optional>

namespace ddprun {

class StopRequest {
 public:
  // Once per process. `alone`: a user may sit at the terminal, no launcher in between.
  static void Catch(bool alone);

  // The first signal that asked; none: there was none.
  static std::optional<int> Signal();

  // The signal that asks for a save: one that harms no process that does not expect it.
  static int SaveSignal();
  // Whether one was, since the last call.
  static bool TakeSave();
};

}  // namespace ddprun
