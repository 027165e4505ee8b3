// Notices that the srun of this step is gone. Slurm does not inform its tasks of that: they run on,
// their output goes nowhere, and no process waits for their end.
//
// Looks, every two seconds, whether a process still listens at the port that srun has for its
// tasks. Only from the host that srun runs on, the first node's in a batch script: a connection
// would be noticed too, but srun tells its user of every one. Elsewhere it looks at nothing.
#pragma once

#include <cstdint>
#include <functional>

#include "common/endpoint.h"
#include "common/loop.h"

namespace ddprun {

class SrunWatch {
 public:
  // `on_gone` once, on the loop. Watches nothing unless a process listens there now.
  SrunWatch(Loop& loop, const Endpoint& srun, std::function<void()> on_gone);

 private:
  void Look();

  Loop& loop_;
  std::uint16_t port_ = 0;
  std::function<void()> on_gone_;
  int missed_ = 0;
  LoopTimer timer_;
};

}  // namespace ddprun
