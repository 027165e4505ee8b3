// A server's settings, the same for all its runs.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/ids.h"
#include "common/time.h"
#include "rendezvous/messages/lease.h"

namespace ddprun {

struct CoordinatorConfig {
  // This server's term: agents ignore a server whose term is below one that they have heard.
  Term term;
  // World ids are drawn from it: a seed that was used before gives two worlds one id.
  std::uint64_t seed = 0;
  // The least time after which a silent node is lost: too short loses busy nodes, too long delays
  // the restart after a loss.
  Duration base_lease{kBaseLease};
  // The lease is at least this times the number of nodes, so that 10,000 nodes cost a few percent
  // of a core; 0: large runs load the server more.
  Duration lease_per_node{9};
  // The longest lease to which delays that were seen can lead, and the lease while machines are not
  // known to keep up (`proven`): too short loses slow nodes, too long keeps dead ones.
  Duration long_lease{kLongLease};
  // From a closed connection to the node's loss: too short loses a node that connects anew.
  Duration disconnect_grace{kDisconnectGrace};
  // TERM to KILL after a failure or loss, as the agents have it: too short loses nodes that still
  // stop their workers.
  Duration stop_grace{5'000};
  // From a Run directive until the node hosts it: too short loses slow nodes, too long lets the
  // others wait for one that never starts.
  Duration start_timeout{30'000};
  // Arrivals closer than this make one restart; 0: each makes its own.
  Duration settle{150};
  // The latest restart after the first of such arrivals: too long, and steady arrivals put the
  // restart off.
  Duration settle_limit{1'000};
  // Machines are known to keep up, so leases are not long for kProbation: if wrongly true, nodes
  // that start slowly are lost.
  bool proven = true;
  // Only one node can come, so the run ends if it is unfit: if wrongly true, one unfit node ends
  // the run of all.
  bool alone = false;
  // This server has a claim, and announces an outcome only once the claim has it; if wrongly false,
  // a later server may announce another outcome.
  bool claims = false;
  // The bytes that a run may hold beside its world's members (keeping.h): too few make newcomers
  // wait, too many let a flood of nodes fill the memory.
  std::size_t run_bytes = 64 << 20;
};

}  // namespace ddprun
