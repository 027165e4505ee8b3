// A server's settings, the same for all its runs.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/ids.h"
#include "common/time.h"
#include "rendezvous/messages/lease.h"

namespace ddprun {

struct CoordinatorConfig {
  Term term;               // This server's.
  std::uint64_t seed = 0;  // World ids are drawn from it.
  // The least time after which a silent node is lost. If too short, a busy node is lost.
  Duration base_lease{kBaseLease};
  // The lease is at least this times the number of nodes: 10,000 nodes cost a few percent of a
  // core.
  Duration lease_per_node{9};
  // The least lease while machines are not known to keep up (`proven`).
  Duration long_lease{kLongLease};
  // From a closed connection to the node's loss. If too short, a reconnecting node is lost.
  Duration disconnect_grace{kDisconnectGrace};
  Duration stop_grace{5'000};      // TERM to KILL after a failure or loss.
  Duration start_timeout{30'000};  // From a Run directive until the node hosts it.
  Duration settle{150};            // Arrivals closer than this make one restart.
  Duration settle_limit{1'000};    // The latest restart after the first of such arrivals.
  bool proven = true;   // Machines are known to keep up; else leases are long for kProbation.
  bool alone = false;   // Only one node can come: one that is unfit is not waited for.
  bool claims = false;  // This server has a claim: an outcome is announced only once the claim has
                        // it.
  std::size_t run_bytes = 64 << 20;  // The bytes that a run may hold, its world's members aside
                                     // (keeping.h).
};

}  // namespace ddprun
