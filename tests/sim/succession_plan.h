// One seed's history of machines that take the server's part over from one another while their run
// waits for nodes that never come: trouble for a minute, then none, then one server must be left.
//
// A quarter of them have blips alone, which must change nothing; of those with a directory a
// quarter reads what was long ago.
#pragma once

#include <cstdint>

#include "tests/sim/plan.h"
#include "tests/sim/simulation.h"

namespace ddprun::sim {

class SuccessionPlan {
 public:
  // `listed`: claims are kept by a list of three or five, else in a directory.
  SuccessionPlan(std::uint64_t seed, const Mutation& mutation, bool listed, TranscriptLevel level);

  History Play();

 private:
  Setup RandomSetup(const Mutation& mutation, bool listed);
  void TroubleSoon(Time end);
  void Trouble();
  void Watch();
  bool Settled() const;

  Random random_;
  bool blips_only_ = false;  // Nothing lasts as long as a lease.
  bool old_reads_ = false;   // And the network is well.
  int overlaps_ = 0;         // Looks in a row that found two servers.
  Simulation simulation_;
};

}  // namespace ddprun::sim
