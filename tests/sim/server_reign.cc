// Server: one of several, which reigns when its machine holds the claim.
#include <utility>

#include "tests/sim/server.h"
#include "tests/sim/simulation.h"

namespace ddprun::sim {

void Server::Reign(Term term, bool successor) {
  up_ = true;
  ++life_;
  config_.term = term;
  config_.seed = simulation_.random.Next();
  const RunId run_id = state_.run_id;
  state_ = CoordinatorState{};
  state_.run_id = run_id;
  succeeds_ = successor;
  simulation_.laws.OnServerStart(simulation_.agenda.Now());
  answered_edition_ = state_.edition;
  Arm();
}

void Server::StepDown() {
  const std::map<NodeKey, Parked> parked = std::exchange(parked_, {});
  Crash();
  for (const auto& [key, call] : parked) {
    call.answer(std::nullopt);
  }
}

}  // namespace ddprun::sim
