#include "rendezvous/failover/sole_claim.h"

#include <utility>

#include "common/log.h"
#include "rendezvous/core/failover/serving.h"
#include "rendezvous/messages/limits.h"

namespace ddprun {
namespace {

constexpr Duration kClosesWithin{2'000};  // For a last write.

}  // namespace

SoleClaim::SoleClaim(Loop& loop, std::shared_ptr<Claims> claims, CoordinatorDriver& coordinator)
    : loop_(loop),
      claims_(std::move(claims)),
      coordinator_(coordinator),
      kept_(loop, "the claim in " + claims_->Where(), "how runs have ended") {}

Result<TakeClaim> SoleClaim::Next(Claims& claims) {
  ASSIGN_OR_RETURN(const std::optional<Claim> last, claims.Newest());
  TakeClaim take{.number = 1};
  if (last && last->damaged) {
    Log(LogLevel::kWarning,
        "claim " + std::to_string(last->number) + " in " + claims.Where() +
            " is incomplete or damaged; how runs have ended is known from the claim before it");
  }
  if (last) {
    take = {.number = last->number + 1,
            .above = last->term,
            .takes_over = !last->over,
            .ended = last->ended};
  }
  return take;
}

Result<void> SoleClaim::Take(const TakeClaim& take, const Endpoint& endpoint) {
  ASSIGN_OR_RETURN(claim_, claims_->Make(NewClaim(take, coordinator_.config().term, endpoint)));
  coordinator_.UseClaim(claim_.ended, kMostEndedRuns,
                        [this](const std::vector<EndedRun>& ended) { Keep(ended); });
  if (take.takes_over) {
    coordinator_.TakeOver({}, false);
  }
  return {};
}

void SoleClaim::Keep(const std::vector<EndedRun>& ended) {
  claim_.ended = ended;
  ++claim_.counter;
  claim_.term = coordinator_.config().term;
  kept_.Write({.write = [claims = claims_, claim = claim_]() -> Result<void> {
                 ASSIGN_OR_RETURN(const bool superseded, claims->Move(claim));
                 return superseded
                            ? Error{ErrorKind::kRefused,
                                    "another server has made a claim there, without its lock"}
                            : Result<void>();
               },
               .done = [this, ended] { coordinator_.OutcomesAreKept(ended); }});
}

void SoleClaim::Close() {
  Claim closed = claim_;
  ++closed.counter;
  closed.closed = true;
  closed.over = coordinator_.RunsHaveEnded();
  const auto moved = std::make_shared<Result<bool>>(false);
  const bool in_time = loop_.FinishOnDisk(
      kClosesWithin, [claims = claims_, closed, moved] { *moved = claims->Move(closed); });
  if (!in_time || !*moved) {
    Log(LogLevel::kWarning,
        "cannot release the claim: " +
            (in_time ? moved->error().message : claims_->Where() + " is not responding"));
  }
}

}  // namespace ddprun
