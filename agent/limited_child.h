// Work that may hang, in a child process that has only so long for it.
//
//   at work --it is done-----------------------------------------> done, or it has failed
//   at work --its limit is over, or `hurry` since a signal came--> killed; left behind where not
//                                                                  even SIGKILL ends it
//
// Forked where no thread is, so whatever the work needs may start there. It is what this process
// itself is: no program is looked for that may have been replaced since.
#pragma once

#include <functional>
#include <string>

#include "common/time.h"

namespace ddprun {

enum class WorkEnd { kDone, kFailed, kKilled };

// `work`: false: it has failed. `moment` waits for a moment, or for a child's end; true: a signal
// came that asks for the end.
WorkEnd RunInChild(const std::function<bool()>& work, Duration limit, Duration hurry,
                   const std::function<bool()>& moment);

// Removes a directory whose disk may hang. Returns a message for the user; "": nothing is left.
std::string RemoveInTime(const std::string& directory, const std::function<bool()>& moment);

}  // namespace ddprun
