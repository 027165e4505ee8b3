// MUNGE, which the sites of Slurm have: seals a text so that only processes of one user can open
// it, on any host of the site, and tells who sealed it.
//
// Its library is looked for when it is wanted first (dlopen), so neither building nor running needs
// it. Its daemon may be missing, or hang: whatever is asked blocks for 3 s at most, and is never
// asked on the loop. Decides nothing of what a text means, nor how often to ask.
//
// kUnavailable, of all: its daemon does not answer now, and may later.
#pragma once

#include <sys/types.h>

#include <string>

#include "common/result.h"

namespace ddprun {

// Who opened it before, and how old it is, does not matter here.
struct MungeText {
  std::string text;
  uid_t sealed_by = 0;
};

// For this process's own user. "MUNGE:...:". kNotFound: there is no MUNGE, or it cannot.
Result<std::string> SealByMunge(const std::string& text);

// kRefused: it is for another user; kInvalid: it is none of this site's; kNotFound: there is no
// MUNGE.
Result<MungeText> OpenByMunge(const std::string& sealed);

}  // namespace ddprun
