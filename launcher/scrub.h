// Which inherited variables belong to another launcher (--scrub-env): a worker that finds them
// believes that it runs under MPI.
#pragma once

#include <string_view>

namespace ddprun {

bool BelongsToMpi(std::string_view variable);

// The value of a variable or flag of this name must not be shown: DDPRUN_TOKEN.
bool IsSecret(std::string_view name);

}  // namespace ddprun
