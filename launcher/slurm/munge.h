// MUNGE, which the sites of Slurm have: seals a text so that only processes of one user can open
// it, on any host of the site, and tells who sealed it.
//
// Its library is looked for when it is wanted first (dlopen), so neither building nor running needs
// it. Its daemon may be missing, or hang: a question blocks for 10 s at most, and is never
// asked on the loop. Decides nothing of what a text means.
//
// kUnavailable, of both: its daemon does not answer. kInvalid: there is no MUNGE, or it cannot.
#pragma once

#include <string>

#include "common/result.h"

namespace ddprun {

// For this process's own user. "MUNGE:...:".
Result<std::string> SealByMunge(const std::string& text);

// Of the same user. How old it is, and who opened it before, does not matter here.
Result<std::string> OpenByMunge(const std::string& sealed);

}  // namespace ddprun
