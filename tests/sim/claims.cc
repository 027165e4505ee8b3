#include "tests/sim/claims.h"

#include <cerrno>
#include <utility>

#include "tests/sim/fiber.h"
#include "tests/sim/machine.h"
#include "tests/sim/rules.h"
#include "tests/sim/simulation.h"

namespace ddprun::sim {
namespace {

constexpr Duration kShort{20};
constexpr Duration kOldest{10'000};  // What a stale read shows.
constexpr Duration kPoll{5};         // Of who waits in a fiber.
constexpr Duration kHangPoll{50};

}  // namespace

// ---- A directory ----
void RunDirectory::Write(const Claim& claim, Time now) {
  claims_[claim.number] = claim;
  moved_[claim.term] = now;
  past_[now] = claims_.rbegin()->second;
}

std::optional<Claim> RunDirectory::NewestAt(Time when) const {
  const auto after = past_.upper_bound(when);
  return after == past_.begin() ? std::nullopt : std::optional(std::prev(after)->second);
}

void SimDirectory::Take(Duration most) {
  Fiber::Sleep(simulation_.random.Between(Duration{0}, most));
}

void SimDirectory::Reach() {
  Take(kShort);
  while (!machine_.directory()) {
    Fiber::Sleep(kHangPoll);
  }
}

std::optional<Error> SimDirectory::Failure(const char* what, bool writes) {
  const int error = machine_.directory_error();
  if (error == 0 || (error == ENOSPC && !writes) ||
      (error == EIO && simulation_.random.Chance(0.3))) {
    return std::nullopt;
  }
  machine_.DirectoryFailed();
  return SystemError(what, "/run-dir", error);
}

bool SimDirectory::MayLand(const std::optional<Error>& failure) const {
  return !failure || (machine_.directory_error() == EIO && simulation_.random.Chance(0.3));
}

Result<std::optional<Claim>> SimDirectory::Newest(Duration /*lease*/) {
  Random& random = simulation_.random;
  const Time began = simulation_.agenda.Now();
  const Duration age = random.Chance(simulation_.setup.stale_claims)
                           ? random.Between(Duration{0}, kOldest)
                           : Duration{0};
  const bool early = random.Chance(0.5);  // A read that hangs may have seen what was at its start.
  Reach();
  if (const auto failure = Failure("read the run directory", false)) {
    return *failure;
  }
  const Time seen = (early ? began : simulation_.agenda.Now()) - age;
  const std::optional<Claim> found = simulation_.run_directory->NewestAt(seen);
  Take(kShort);
  return found;
}

Result<Claim> SimDirectory::Make(const Claim& claim, Duration /*lease*/) {
  Reach();
  RunDirectory& directory = *simulation_.run_directory;
  for (const auto& [number, other] : directory.claims()) {
    if (number < claim.number && other.term >= claim.term) {
      simulation_.laws.Break("claim " + std::to_string(claim.number) +
                             " has no later term than claim " + std::to_string(number));
    }
  }
  const bool taken = directory.claims().contains(claim.number) && !Without("exclusion");
  const auto failure = Failure("make the claim", true);
  if (!taken && MayLand(failure)) {
    directory.Write(claim, simulation_.agenda.Now());
  }
  Take(kShort);
  if (failure) {
    return *failure;
  }
  if (taken) {
    return Error{ErrorKind::kRefused, "somebody else has made the claim"};
  }
  Claim made = claim;
  AddEndedBefore(made, [&](std::uint64_t number) -> Result<Claim> {
    const auto before = directory.claims().find(number);
    return before != directory.claims().end() ? Result<Claim>(before->second)
                                              : Invalid("no claim", std::to_string(number));
  });
  return made;
}

Result<bool> SimDirectory::Move(const Claim& claim, Duration /*lease*/) {
  Reach();
  const auto failure = Failure("write the claim", true);
  if (MayLand(failure)) {
    simulation_.run_directory->Write(claim, simulation_.agenda.Now());
  }
  if (failure) {
    return *failure;
  }
  const bool superseded = simulation_.run_directory->claims().contains(claim.number + 1);
  Take(kShort);
  return superseded;
}

// ---- A list ----
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
  Machine& to = *simulation_.machines.at(witness);
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
  while (!round.IsOver()) {
    Fiber::Sleep(kPoll);
  }
}

}  // namespace ddprun::sim
