// Where simulated machines keep their claims: a directory that they share, which may hang and show
// what was long ago.
//
// Each of its operations is called from a fiber, on a process's disk: it sleeps there. Decides
// nothing; the conditions on each claim that is made are checked here.
#pragma once

#include <cerrno>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "rendezvous/failover/claims.h"
#include "tests/sim/fiber.h"
#include "tests/sim/machine.h"
#include "tests/sim/rules.h"
#include "tests/sim/simulation.h"

namespace ddprun::sim {

// The directory's condition over time.
class RunDirectory {
 public:
  // A claim is made, or its counter moves.
  void Write(const Claim& claim, Time now) {
    claims_[claim.number] = claim;
    moved_[claim.term] = now;
    past_[now] = claims_.rbegin()->second;
  }
  // As it was then.
  std::optional<Claim> NewestAt(Time when) const {
    const auto after = past_.upper_bound(when);
    return after == past_.begin() ? std::nullopt : std::optional(std::prev(after)->second);
  }
  // When a claim of this term was last made or moved.
  Time MovedAt(Term term) const { return moved_.at(term); }
  const std::map<std::uint64_t, Claim>& claims() const { return claims_; }

 private:
  std::map<std::uint64_t, Claim> claims_;
  std::map<Term, Time> moved_;
  std::map<Time, Claim> past_;  // The newest from then on.
};

// As one process sees it.
class SimDirectory final : public Claims {
 public:
  SimDirectory(Simulation& simulation, Machine& machine)
      : simulation_(simulation), machine_(machine) {}

  Result<std::optional<Claim>> Newest() override {
    Random& random = simulation_.random;
    const Time began = simulation_.Now();
    const Duration age =
        random.Chance(simulation_.setup.stale_claims) ? random.Between(0ms, kOldest) : 0ms;
    // A read that hangs may have seen what was at its start.
    const bool early = random.Chance(0.5);
    Reach();
    if (const auto failure = Failure("read the run directory", false)) {
      return *failure;
    }
    const Time seen = (early ? began : simulation_.Now()) - age;
    const std::optional<Claim> found = simulation_.run_directory->NewestAt(seen);
    Take(kShort);
    return found;
  }
  Result<Claim> Make(const Claim& claim) override {
    Reach();
    RunDirectory& directory = *simulation_.run_directory;
    for (const auto& [number, other] : directory.claims()) {
      simulation_.laws.BreakIf(number < claim.number && other.term >= claim.term, "claim ",
                               claim.number, " has no later term than claim ", number);
    }
    const bool taken = directory.claims().contains(claim.number) && !Without("exclusion");
    const auto failure = Failure("make the claim", true);
    if (!taken && MayLand(failure)) {
      directory.Write(claim, simulation_.Now());
    }
    Take(kShort);
    if (failure) {
      return *failure;
    }
    if (taken) {
      return Error{ErrorKind::kRefused, "another process has made the claim"};
    }
    Claim made = claim;
    AddEndedBefore(made, [&](std::uint64_t number) -> Result<Claim> {
      const auto before = directory.claims().find(number);
      return before != directory.claims().end() ? Result<Claim>(before->second)
                                                : Invalid("no claim", std::to_string(number));
    });
    return made;
  }
  Result<bool> Move(const Claim& claim) override {
    Reach();
    const auto failure = Failure("write the claim", true);
    if (MayLand(failure)) {
      simulation_.run_directory->Write(claim, simulation_.Now());
    }
    if (failure) {
      return *failure;
    }
    const bool superseded = simulation_.run_directory->claims().contains(claim.number + 1);
    Take(kShort);
    return superseded;
  }
  Result<void> Announce(const Endpoint& /*endpoint*/, const std::string& /*token*/) override {
    return {};
  }
  std::string Where() const override { return "the run directory"; }

 private:
  static constexpr Duration kShort{20};
  static constexpr Duration kOldest{10'000};  // The claims that a stale read shows.
  static constexpr Duration kHangPoll{50};

  void Reach() {
    Take(kShort);
    while (!machine_.directory.answers) {
      Fiber::Sleep(kHangPoll);
    }
  }
  void Take(Duration most) { Fiber::Sleep(simulation_.random.Between(0ms, most)); }
  // The error with which an operation fails; it may have been done all the same.
  std::optional<Error> Failure(const char* what, bool writes) {
    const int error = machine_.directory.error;
    if (error == 0 || (error == ENOSPC && !writes) ||
        (error == EIO && simulation_.random.Chance(0.3))) {
      return std::nullopt;
    }
    machine_.directory.failed = simulation_.Now();
    return SystemError(what, "/run-dir", error);
  }
  bool MayLand(const std::optional<Error>& failure) const {
    return !failure || (machine_.directory.error == EIO && simulation_.random.Chance(0.3));
  }

  Simulation& simulation_;
  Machine& machine_;
};

}  // namespace ddprun::sim
