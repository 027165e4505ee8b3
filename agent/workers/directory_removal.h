// Removes a directory whose disk may hang, for a process that is about to end: a child does it, and
// is left behind where not even SIGKILL ends it.
//
//   being removed --the child has ended-------------------------> gone, or a message why not
//   be being removed --3 s are over, or 0.2 s since a signal came--> killed; a message says
//   that it is left behind
#pragma once

#include <functional>
#include <string>

namespace ddprun {

// Returns the message for the user; "": nothing is left. Forks, so no threads may be there. `wait`
// lasts a moment, or until a child has ended; true: a signal came that asks for the end.
std::string RemoveInTime(const std::string& directory, const std::function<bool()>& wait);

}  // namespace ddprun
