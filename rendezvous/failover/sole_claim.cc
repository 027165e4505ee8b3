#include "rendezvous/failover/sole_claim.h"

#include <utility>

#include "common/log.h"
#include "rendezvous/core/failover/serving.h"
#include "rendezvous/messages/limits.h"

namespace ddprun {
namespace {

constexpr Duration kClosesWithin{2'000};  // For a last write.
constexpr Duration kWritesAgain{1'000};
constexpr Duration kAnswersWithin{3'000};  // A write that takes longer has failed, for the runs.

}  // namespace

SoleClaim::SoleClaim(Loop& loop, std::shared_ptr<Claims> claims, CoordinatorDriver& coordinator)
    : loop_(loop), claims_(std::move(claims)), coordinator_(coordinator), again_(loop) {}

Result<TakeClaim> SoleClaim::Next(Claims& claims) {
  ASSIGN_OR_RETURN(const std::optional<Claim> last, claims.Newest());
  TakeClaim take{.number = 1};
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
  due_ = true;
  WriteNext();
}

void SoleClaim::WriteNext() {
  if (writing_ || !due_) {
    return;
  }
  writing_ = true;
  due_ = false;
  ++claim_.counter;
  claim_.term = coordinator_.config().term;
  const auto moved = std::make_shared<Result<bool>>(false);
  loop_.RunOnDisk([claims = claims_, claim = claim_, moved] { *moved = claims->Move(claim); },
                  [this, ended = claim_.ended, moved] {
                    writing_ = false;
                    OnWritten(*moved);
                    coordinator_.OutcomesAreKept(ended);
                    WriteNext();
                  });
  again_.ArmAt(loop_.Now() + kAnswersWithin, [this] { OnSilence(); });
}

void SoleClaim::OnSilence() {
  Tell("the file system is not responding");
  coordinator_.OutcomesAreKept(claim_.ended);
  again_.ArmAt(loop_.Now() + kWritesAgain, [this] { OnSilence(); });
}

void SoleClaim::OnWritten(const Result<bool>& moved) {
  again_.Cancel();
  Tell(!moved   ? moved.error().message
       : *moved ? "another server has made a claim there, without its lock"
                : "");
  if (failing_) {
    again_.ArmAt(loop_.Now() + kWritesAgain, [this] {
      due_ = true;
      WriteNext();
    });
  }
}

void SoleClaim::Tell(const std::string& why) {
  if (!why.empty() && !failing_) {
    Log(LogLevel::kError,
        "the claim in " + claims_->Where() + " cannot be written: " + why +
            "; the runs continue, but a server that is started again now does not "
            "know how runs have ended; trying again");
  } else if (why.empty() && failing_) {
    Log(LogLevel::kInfo, "the claim in " + claims_->Where() + " can be written again");
  }
  failing_ = !why.empty();
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
        "the claim could not be given up: " +
            (in_time ? moved->error().message : claims_->Where() + " is silent"));
  }
}

}  // namespace ddprun
