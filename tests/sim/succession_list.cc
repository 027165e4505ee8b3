// SuccessionWorld: claims that the machines of a list keep, as client_witness does it.
#include <utility>

#include "tests/sim/succession_world.h"

namespace ddprun::sim {
namespace {

constexpr Duration kLease{3'000};
constexpr Duration kPatience = kLease / kRoundsPerLease;

}  // namespace

void SuccessionWorld::AskList(Machine& machine, const WitnessRequest& request, Counted counted) {
  if (machine.asking) {
    machine.rounds.push_back(
        [this, &machine, request, counted] { BeginRound(machine, request, counted); });
  } else {
    BeginRound(machine, request, counted);
  }
}

void SuccessionWorld::BeginRound(Machine& machine, const WitnessRequest& request,
                                 const Counted& counted) {
  struct Round {
    Ballot ballot;
    bool over = false;
  };
  machine.asking = true;
  const auto round = std::make_shared<Round>(Round{Ballot(listed_, request)});
  const std::uint64_t life = machine.life;
  const auto end = [this, &machine, round, counted, life] {
    if (round->over || life != machine.life) {
      return;
    }
    round->over = true;
    OnLoop(machine, life, [round, counted] { counted(round->ballot); });
    machine.asking = false;
    if (!machine.rounds.empty() && life == machine.life) {
      const auto next = std::move(machine.rounds.front());
      machine.rounds.pop_front();
      next();
    }
  };
  for (std::size_t i = 0; i < listed_; ++i) {
    SendTo(machine, machines_[i], request, [round, end, i](const WitnessAnswer& answer) {
      if (!round->over) {
        round->ballot.Add(i, answer);
        if (round->ballot.Decided()) {
          end();
        }
      }
    });
  }
  agenda_.After(kPatience, end);
}

// The one who asks has a thread of its own; a witness answers on its loop.
void SuccessionWorld::SendTo(Machine& from, Machine& to, const WitnessRequest& request,
                             const std::function<void(const WitnessAnswer&)>& answered) {
  const auto travel = [this] { return random_.Between(Duration{1}, Duration{20}); };
  const std::uint64_t asker = from.life;
  agenda_.After(travel(), [this, &from, &to, request, answered, travel, asker] {
    if (!Reaches(from, to)) {
      return;
    }
    OnLoop(to, to.life, [this, &from, &to, request, answered, travel, asker] {
      const WitnessAnswer answer = to.witness->Answer(request, agenda_.Now());
      agenda_.After(travel(), [this, &from, &to, answer, answered, asker] {
        if (Reaches(to, from) && from.life == asker && from.up) {
          answered(answer);
        }
      });
    });
  });
}

void SuccessionWorld::ReadList(Machine& machine) {
  const Time began = agenda_.Now();
  AskList(machine, {WitnessVerb::kLook, {}, false, kLease, 0},
          [this, &machine, began](const Ballot& ballot) {
            machine.everybody_new = ballot.EverybodyNew();
            const auto newest = ballot.Newest();
            if (newest) {
              Feed(machine, DirectoryRead{began, *newest});
            } else if (newest.error().kind == ErrorKind::kRefused) {
              Feed(machine, ClaimsContested{});
            } else {
              Feed(machine, DirectoryUnreadable{newest.error().message});
            }
          });
}

void SuccessionWorld::TakeOnList(Machine& machine, const Claim& claim) {
  const Time began = agenda_.Now();
  AskList(
      machine, {WitnessVerb::kBack, claim, machine.everybody_new, kLease, 0},
      [this, &machine, claim, began](const Ballot& ballot) {
        const Result<void> made = ballot.Made();
        if (made || (mutation_.no_majority && ballot.Accepted() > 0)) {
          Note(machine, claim);
          machine.target = PlaceOf(machine.index);
          Feed(machine, Claimed{began, claim});
          return;
        }
        AskList(machine, {WitnessVerb::kRelease, claim, false, kLease, 0}, [](const Ballot&) {});
        Feed(machine, NotClaimed{made.error().kind == ErrorKind::kRefused, made.error().message});
      });
}

void SuccessionWorld::MoveOnList(Machine& machine, const Claim& claim, bool answers) {
  const Time began = agenda_.Now();
  AskList(machine, {WitnessVerb::kMove, claim, false, kLease, 0},
          [this, &machine, claim, began, answers](const Ballot& ballot) {
            for (const auto& [witness, stray] : ballot.Strays()) {
              SendTo(machine, machines_[witness], {WitnessVerb::kRelease, stray, false, kLease, 0},
                     [](const WitnessAnswer&) {});
            }
            Result<bool> moved = ballot.Moved();
            if (!moved && mutation_.no_majority && ballot.Accepted() > 0) {
              moved = false;
            }
            if (moved && !*moved && directory_.contains(claim.number)) {
              directory_[claim.number] = claim;
            }
            if (!answers) {
              return;
            }
            if (moved) {
              Feed(machine, CounterMoved{began, claim, *moved});
            } else {
              Feed(machine, CounterStuck{claim.number, moved.error().message});
            }
          });
}

}  // namespace ddprun::sim
