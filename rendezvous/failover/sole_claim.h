// The claim of a server in a directory that no other server may use (--state-dir), so that one
// started again continues with its runs. It keeps the server's term and how runs have ended; nodes
// tell the rest.
//
// Decides nothing about runs. The directory is locked: no other process watches the claim's
// counter, and the server never steps down. A write that fails delays no run (kept_write.h). Lives
// on the loop; only Next, Take and Close wait for the disk.
#pragma once

#include <memory>
#include <vector>

#include "common/loop.h"
#include "common/result.h"
#include "rendezvous/core/failover/state.h"
#include "rendezvous/driver.h"
#include "rendezvous/failover/claims.h"
#include "rendezvous/failover/kept_write.h"

namespace ddprun {

class SoleClaim {
 public:
  // `coordinator`: of the server, which must outlive this.
  SoleClaim(Loop& loop, std::shared_ptr<Claims> claims, CoordinatorDriver& coordinator);

  // The claim to make after the newest one there.
  static Result<TakeClaim> Next(Claims& claims);

  // Makes it. The coordinator, whose term must be NewClaim's, begins with what it says. Before
  // anything arrives.
  Result<void> Take(const TakeClaim& take, const Endpoint& endpoint);

  // The next server need not ask for runs that have ended. Once the loop has ended.
  void Close();

 private:
  void Keep(const std::vector<EndedRun>& ended);

  Loop& loop_;
  const std::shared_ptr<Claims> claims_;
  CoordinatorDriver& coordinator_;
  Claim claim_;  // As it shall be.
  KeptWrite kept_;
};

}  // namespace ddprun
