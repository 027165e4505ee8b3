// Candidate: claims, in a directory as claim_directory keeps them, and on a list as client_witness
// does.
#include <algorithm>
#include <utility>

#include "rendezvous/core/recovery.h"
#include "tests/sim/candidate.h"
#include "tests/sim/machine.h"
#include "tests/sim/simulation.h"

namespace ddprun::sim {
namespace {

using std::chrono_literals::operator""ms;

constexpr Duration kLease{3'000};
constexpr Duration kPatience = kLease / kRoundsPerLease;
constexpr Duration kShort{20};
constexpr Duration kOldest{10'000};  // What a stale read shows.

}  // namespace

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

// ---- A directory ----
void Candidate::OnPool(std::function<void()> work, std::function<void()> done) {
  const Time now = simulation_.agenda.Now();
  const Time begin =
      std::max(now, pool_free_.value_or(now)) + simulation_.random.Between(Duration{0}, kShort);
  pool_free_ = begin;
  const std::uint64_t life = life_;
  const auto job = [this, work, done, life] {
    if (life != life_) {
      return;  // What a killed process had not begun is never done.
    }
    work();
    simulation_.agenda.After(simulation_.random.Between(Duration{0}, kShort),
                             [this, done, life] { OnLoop(life, done); });
  };
  simulation_.agenda.At(begin, [this, job] {
    if (directory_ && hanging_.empty()) {
      job();
    } else {
      hanging_.push_back(job);
    }
  });
}

void Candidate::Read() {
  if (simulation_.setup.listed > 0) {
    ReadList();
    return;
  }
  Random& random = simulation_.random;
  const auto found = std::make_shared<std::optional<Claim>>();
  const Time began = simulation_.agenda.Now();
  const Duration age = random.Chance(simulation_.setup.stale_claims)
                           ? random.Between(Duration{0}, kOldest)
                           : Duration{0};
  const bool early = random.Chance(0.5);  // A read that hangs may have seen what was at its start.
  OnPool(
      [this, found, began, age, early] {
        const Time seen = (early ? began : simulation_.agenda.Now()) - age;
        *found = simulation_.run_directory->NewestAt(seen);
      },
      [this, found, began] {
        Feed(DirectoryRead{began, *found});
      });
}

void Candidate::Take(const TakeClaim& take) {
  const auto wall =
      static_cast<std::uint64_t>(simulation_.agenda.Now().time_since_epoch() / 1ms + clock_);
  Claim claim{take.number, {wall * 16}, PlaceOf(index_), 0, false};
  if (!simulation_.setup.mutation.forget_terms) {
    const std::uint64_t drawn = simulation_.random.Below(std::uint64_t{1} << 17);
    claim.term = ReignAfter(claim.term, {take.above.value + 1 + drawn});
  }
  if (simulation_.setup.listed > 0) {
    claim.number = take.number == 1 ? claim.term.value : take.number;
    TakeOnList(take, claim);
    return;
  }
  const auto made = std::make_shared<bool>();
  const Time began = simulation_.agenda.Now();
  OnPool(
      [this, claim, made] {
        *made = simulation_.run_directory->Make(claim, !simulation_.setup.mutation.no_exclusion,
                                                simulation_.agenda.Now());
      },
      [this, take, claim, made, began] {
        if (*made) {
          Reign(take, claim);
          Feed(Claimed{began, claim});
        } else {
          Feed(NotClaimed{true, ""});
        }
      });
}

void Candidate::Move(const Claim& claim, bool answers) {
  if (simulation_.setup.listed > 0) {
    MoveOnList(claim, answers);
    return;
  }
  const auto superseded = std::make_shared<bool>();
  const Time began = simulation_.agenda.Now();
  OnPool(
      [this, claim, superseded] {
        *superseded = simulation_.run_directory->Move(claim, simulation_.agenda.Now());
      },
      [this, claim, superseded, began, answers] {
        if (answers) {
          Feed(CounterMoved{began, claim, *superseded});
        }
      });
}

// ---- A list ----
void Candidate::AskList(const WitnessRequest& request, Counted counted) {
  if (asking_) {
    rounds_.push_back([this, request, counted] { BeginRound(request, counted); });
  } else {
    BeginRound(request, counted);
  }
}

void Candidate::BeginRound(const WitnessRequest& request, const Counted& counted) {
  struct Round {
    Ballot ballot;
    bool over = false;
  };
  asking_ = true;
  const std::uint32_t listed = simulation_.setup.listed;
  const auto round = std::make_shared<Round>(Round{Ballot(listed, request)});
  const std::uint64_t life = life_;
  const auto end = [this, round, counted, life] {
    if (round->over || life != life_) {
      return;
    }
    round->over = true;
    OnLoop(life, [round, counted] { counted(round->ballot); });
    asking_ = false;
    if (!rounds_.empty() && life == life_) {
      const auto next = std::move(rounds_.front());
      rounds_.pop_front();
      next();
    }
  };
  for (std::uint32_t i = 0; i < listed; ++i) {
    SendTo(*simulation_.candidates[i], request, [round, end, i](const WitnessAnswer& answer) {
      if (!round->over) {
        round->ballot.Add(i, answer);
        if (round->ballot.Decided()) {
          end();
        }
      }
    });
  }
  simulation_.agenda.After(kPatience, end);
}

// The one who asks has a thread of its own; a witness answers on its loop.
void Candidate::SendTo(Candidate& to, const WitnessRequest& request,
                       const std::function<void(const WitnessAnswer&)>& answered) {
  const auto travel = [this] { return simulation_.random.Between(Duration{1}, kShort); };
  const std::uint64_t asker = life_;
  simulation_.agenda.After(travel(), [this, &to, request, answered, travel, asker] {
    if (!simulation_.Reaches(index_, to.index_)) {
      return;
    }
    to.OnLoop(to.life_, [this, &to, request, answered, travel, asker] {
      const WitnessAnswer answer = to.witness_->Answer(request, simulation_.agenda.Now());
      simulation_.agenda.After(travel(), [this, &to, answer, answered, asker] {
        if (simulation_.Reaches(to.index_, index_) && life_ == asker && up_) {
          answered(answer);
        }
      });
    });
  });
}

void Candidate::ReadList() {
  const Time began = simulation_.agenda.Now();
  AskList({WitnessVerb::kLook, {}, false, kLease, 0}, [this, began](const Ballot& ballot) {
    everybody_new_ = ballot.EverybodyNew();
    const auto newest = ballot.Newest();
    if (newest) {
      Feed(DirectoryRead{began, *newest});
    } else {
      Feed(DirectoryUnreadable{newest.error().message});
    }
  });
}

void Candidate::TakeOnList(const TakeClaim& take, const Claim& claim) {
  const Time began = simulation_.agenda.Now();
  AskList({WitnessVerb::kBack, claim, everybody_new_, kLease, 0},
          [this, take, claim, began](const Ballot& ballot) {
            const Result<void> made = ballot.Made();
            if (made || (simulation_.setup.mutation.no_majority && ballot.Accepted() > 0)) {
              Reign(take, claim);
              Feed(Claimed{began, claim});
              return;
            }
            AskList({WitnessVerb::kRelease, claim, false, kLease, 0}, [](const Ballot&) {});
            Feed(NotClaimed{made.error().kind == ErrorKind::kRefused, made.error().message});
          });
}

void Candidate::MoveOnList(const Claim& claim, bool answers) {
  const Time began = simulation_.agenda.Now();
  AskList({WitnessVerb::kMove, claim, false, kLease, 0},
          [this, claim, began, answers](const Ballot& ballot) {
            for (const auto& [witness, stray] : ballot.Strays()) {
              SendTo(*simulation_.candidates[witness],
                     {WitnessVerb::kRelease, stray, false, kLease, 0}, [](const WitnessAnswer&) {});
            }
            Result<bool> moved = ballot.Moved();
            if (!moved && simulation_.setup.mutation.no_majority && ballot.Accepted() > 0) {
              moved = false;
            }
            if (!answers) {
              return;
            }
            if (moved) {
              Feed(CounterMoved{began, claim, *moved});
            } else {
              Feed(CounterStuck{claim.number, moved.error().message});
            }
          });
}

}  // namespace ddprun::sim
