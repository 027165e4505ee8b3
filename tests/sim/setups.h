// Drawn before a history begins: the run, its workers, the weather, disks and claims.
#pragma once

#include "tests/sim/plan.h"
#include "tests/sim/simulation.h"

namespace ddprun::sim {

// Calm: no fault but of workers and of a server that stands alone. It shows errors that faults
// would excuse: no healthy node is taken for lost, and no worker notices a server's death.
Setup RandomSetup(Random& random, Mode mode, bool calm);
// Clocks that drift, nodes that do not agree, two machines that claim to be one node.
void DrawMore(Random& random, Mode mode, Setup& setup);

}  // namespace ddprun::sim
