#include "tests/sim/claims.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "tests/sim/candidate.h"
#include "tests/sim/fiber.h"
#include "tests/sim/simulation.h"

namespace ddprun::sim {
namespace {

constexpr Duration kShort{20};
constexpr Duration kOldest{10'000};  // What a stale read shows.
constexpr Duration kPoll{5};         // Of who waits in a fiber.
constexpr Duration kHangPoll{50};

const Error kKilled{ErrorKind::kUnavailable, "the process is killed"};

}  // namespace

// ---- A directory ----
bool RunDirectory::Make(const Claim& claim, bool exclusive, Time now) {
  if (exclusive && claims_.contains(claim.number)) {
    return false;
  }
  claims_[claim.number] = claim;
  moved_[claim.term] = now;
  Note(now);
  return true;
}

bool RunDirectory::Move(const Claim& claim, Time now) {
  claims_[claim.number] = claim;
  moved_[claim.term] = now;
  Note(now);
  return claims_.contains(claim.number + 1);
}

void RunDirectory::Note(Time now) {
  past_.push_back({now, claims_.empty() ? std::nullopt : std::optional(claims_.rbegin()->second)});
}

std::optional<Claim> RunDirectory::NewestAt(Time when) const {
  const auto after = std::partition_point(
      past_.begin(), past_.end(), [when](const Snapshot& past) { return past.when <= when; });
  return after == past_.begin() ? past_.front().newest : std::prev(after)->newest;
}

SimDirectory::SimDirectory(Simulation& simulation, std::function<bool()> reachable)
    : simulation_(simulation), reachable_(std::move(reachable)) {}

bool SimDirectory::Reach() {
  Fiber& caller = Fiber::Current();
  caller.Sleep(simulation_.random.Between(Duration{0}, kShort));
  while (!caller.abandoned() && !reachable_()) {
    caller.Sleep(kHangPoll);
  }
  return !caller.abandoned();
}

Result<std::optional<Claim>> SimDirectory::Newest(Duration /*lease*/) {
  Random& random = simulation_.random;
  const Time began = simulation_.agenda.Now();
  const Duration age = random.Chance(simulation_.setup.stale_claims)
                           ? random.Between(Duration{0}, kOldest)
                           : Duration{0};
  const bool early = random.Chance(0.5);  // A read that hangs may have seen what was at its start.
  if (!Reach()) {
    return kKilled;
  }
  const Time seen = (early ? began : simulation_.agenda.Now()) - age;
  const std::optional<Claim> found = simulation_.run_directory->NewestAt(seen);
  Fiber::Current().Sleep(random.Between(Duration{0}, kShort));
  return found;
}

Result<void> SimDirectory::Make(const Claim& claim, Duration /*lease*/) {
  if (!Reach()) {
    return kKilled;
  }
  RunDirectory& directory = *simulation_.run_directory;
  for (const auto& [number, other] : directory.claims()) {
    if (number < claim.number && other.term >= claim.term) {
      simulation_.laws.Break("claim " + std::to_string(claim.number) +
                             " has no later term than claim " + std::to_string(number));
    }
  }
  const bool made =
      directory.Make(claim, !simulation_.setup.mutation.no_exclusion, simulation_.agenda.Now());
  Fiber::Current().Sleep(simulation_.random.Between(Duration{0}, kShort));
  return made ? Result<void>()
              : Result<void>(Error{ErrorKind::kRefused, "somebody else has made the claim"});
}

Result<bool> SimDirectory::Move(const Claim& claim, Duration /*lease*/) {
  if (!Reach()) {
    return kKilled;
  }
  const bool superseded = simulation_.run_directory->Move(claim, simulation_.agenda.Now());
  Fiber::Current().Sleep(simulation_.random.Between(Duration{0}, kShort));
  return superseded;
}

Result<void> SimDirectory::Announce(const Endpoint& /*endpoint*/, const std::string& /*token*/) {
  return {};
}

// ---- A list ----
SimWitnessCalls::SimWitnessCalls(Simulation& simulation, std::uint32_t from)
    : simulation_(simulation), from_(from) {}

// The one who asks has a thread of its own; a witness answers on its loop.
void SimWitnessCalls::Send(std::size_t witness, const WitnessRequest& request, Duration patience,
                           Done done) {
  struct Call {
    std::shared_ptr<bool> alive;
    Done done;
    void End(const Result<WitnessAnswer>& answer) {
      if (const Done ended = std::exchange(done, nullptr); ended && *alive) {
        ended(answer);
      }
    }
  };
  const auto call = std::make_shared<Call>(Call{alive_, std::move(done)});
  Candidate& to = *simulation_.candidates.at(witness);
  const auto travel = [simulation = &simulation_] {
    return simulation->random.Between(Duration{1}, kShort);
  };
  simulation_.agenda.After(travel(), [simulation = &simulation_, from = from_, &to, request, call,
                                      travel] {
    if (!simulation->Reaches(from, to.index())) {
      return;
    }
    const auto reply = [simulation, from, &to, call, travel](const Result<WitnessAnswer>& answer) {
      simulation->agenda.After(travel(), [simulation, from, &to, call, answer] {
        if (simulation->Reaches(to.index(), from)) {
          call->End(answer);
        }
      });
    };
    if (!to.server().listens()) {
      reply(Error{ErrorKind::kUnavailable, "connection refused"});
      return;
    }
    to.loop().Arrive([&to, request, reply] {
      reply(to.server().AskWitness(request).value_or(
          Error{ErrorKind::kUnavailable, "connection reset"}));
    });
  });
  simulation_.agenda.After(patience, [call] {
    call->End(Error{ErrorKind::kUnavailable, "no answer in time"});
  });
}

void SimWitnessCalls::Await(WitnessRound& round) {
  Fiber& caller = Fiber::Current();
  while (!caller.abandoned() && !round.IsOver()) {
    caller.Sleep(kPoll);
  }
}

}  // namespace ddprun::sim
