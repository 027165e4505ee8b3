// Decides from which addresses the workers of a world may come: for the store on the node of group
// rank 0, which can know no token.
//
// Pure. Every node's own addresses, as it tells them, and the one that its calls come from, which
// may be another one's that stands for it (NAT). Where one node of the world has not told any,
// being older or having too many, nobody can tell whom that would lock out: then none.
#pragma once

#include <cstddef>
#include <string>

#include "rendezvous/core/roster.h"

namespace ddprun {

// "10.0.0.2,10.0.0.3"; empty: not to be told, or unknown.
std::string StorePeers(const Roster& roster, const Directive& directive);

}  // namespace ddprun
