// Where simulated machines keep their claims: a directory that they share, which may hang and show
// what was long ago, or the witnesses of a list, reached over the simulated network.
//
// What is asked of either is asked from a fiber, on a process's disk: it sleeps there. Decides
// nothing; what must be true of each claim that is made is checked here.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "rendezvous/succession/claims.h"
#include "rendezvous/succession/witness_claims.h"
#include "tests/sim/agenda.h"

namespace ddprun::sim {

class Machine;
class Simulation;

// What has become of the directory over time.
class RunDirectory {
 public:
  // A claim is made, or its counter moves.
  void Write(const Claim& claim, Time now);
  // As it was then.
  std::optional<Claim> NewestAt(Time when) const;
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

  Result<std::optional<Claim>> Newest(Duration lease) override;
  Result<Claim> Make(const Claim& claim, Duration lease) override;
  Result<bool> Move(const Claim& claim, Duration lease) override;
  Result<void> Announce(const Endpoint& /*endpoint*/, const std::string& /*token*/) override {
    return {};
  }
  std::string Where() const override { return "the run directory"; }

 private:
  void Reach();
  void Take(Duration most);
  // What an operation fails with; it may have been done all the same.
  std::optional<Error> Failure(const char* what, bool writes);
  bool MayLand(const std::optional<Error>& failure) const;

  Simulation& simulation_;
  Machine& machine_;
};

// A process's way to the witnesses.
class SimWitnessCalls final : public WitnessCalls {
 public:
  SimWitnessCalls(Simulation& simulation, std::uint32_t from)
      : simulation_(simulation), from_(from) {}
  ~SimWitnessCalls() override { *alive_ = false; }

  void Send(std::size_t witness, const WitnessRequest& request, Duration patience,
            Done done) override;
  void Await(WitnessRound& round) override;

 private:
  Simulation& simulation_;
  const std::uint32_t from_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace ddprun::sim
