// Server: one of several, which reigns when its machine holds the claim.
#include <utility>

#include "tests/sim/candidate.h"
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
  stays_until_.reset();
  if (successor) {
    stays_until_ = simulation_.agenda.Now() + config_.base_lease;
  }
  claim_good_.reset();
  simulation_.laws.OnServerStart(simulation_.agenda.Now());
  answered_edition_ = state_.edition;
  Arm();
}

bool Server::Stays() const {
  return stays_until_ && simulation_.agenda.Now() < *stays_until_;
}

void Server::ClaimIsGood(Time until) {
  if (!up_ || claim_good_ == until) {
    return;
  }
  claim_good_ = until;
  Feed(ClaimGood{until});
  AnswerWhatChanged();
  Arm();
}

// Whose claim has not moved for a lease may be on the losing side of a split, about to step down.
// Where claims are read as they are, who forms a world also has the newest.
void Server::CheckClaim(Time now) const {
  const bool in_directory = simulation_.run_directory && simulation_.setup.listed == 0;
  if (in_directory && simulation_.setup.stale_claims == 0 &&
      simulation_.run_directory->NewestAt(now)->term != config_.term) {
    simulation_.laws.Break(name_ + " forms a world although another server has followed it");
  }
  if (in_directory && now - simulation_.run_directory->MovedAt(config_.term) > config_.base_lease) {
    simulation_.laws.Break(name_ + " forms a world with a claim that has not moved for a lease");
  }
}

void Server::StepDown() {
  const std::map<NodeKey, Parked> parked = std::exchange(parked_, {});
  Crash();
  for (const auto& [key, call] : parked) {
    call.answer(std::nullopt);
  }
}

}  // namespace ddprun::sim
