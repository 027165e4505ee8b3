// How many descriptors ddprun may have.
#pragma once

#include "common/result.h"

namespace ddprun {

// Each node is an open connection; the soft limit is often 1,024. Workers get the
// user's own (UserLimits).
void RaiseFileLimit();

// Gives ddprun the descriptors that it needs: raises the limit where that is allowed, and refuses
// where it is not. The user's own limit is remembered for the workers before.
Result<void> HaveDescriptors();

}  // namespace ddprun
