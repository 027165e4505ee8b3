// Decides from which addresses the workers of a world may come: for the store on the node of group
// rank 0, which can know no token.
//
// Pure. Every node's own addresses, as it tells them, and the one that its calls come from, which
// may be another one's that stands for it (NAT). If one node of the world has not reported any,
// being older or having too many, the list could lock a peer out that is not known: then there is
// none.
#pragma once

#include <cstddef>
#include <string>

#include "rendezvous/core/roster.h"

namespace ddprun {

// "10.0.0.2,10.0.0.3"; empty: not to be given, or unknown.
std::string StorePeers(const Roster& roster, const Directive& directive);

}  // namespace ddprun
