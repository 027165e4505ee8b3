#include "tests/sim/succession_world.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "common/overload.h"

namespace ddprun::sim {
namespace {

using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;

constexpr Duration kLease{3'000};

}  // namespace

Endpoint PlaceOf(std::size_t index) {
  return {"n" + std::to_string(index), 29400};
}

SuccessionWorld::SuccessionWorld(std::uint64_t seed, const SuccessionMutation& mutation,
                                 bool listed, bool verbose)
    : random_(seed), mutation_(mutation), verbose_(verbose) {
  agenda_.At(Time{1000s}, [] {});
  agenda_.DoNext(Time{1000s});  // Not at zero: no time is "never".
  trouble_.blips_only = random_.Chance(0.25);
  trouble_.old_reads = !listed && !trouble_.blips_only && random_.Chance(0.25);
  machines_.resize(random_.Between(listed ? 3 : 2, listed ? 6 : 5));
  listed_ = !listed ? 0 : machines_.size() >= 5 ? 5 : 3;
  for (std::size_t i = 0; i < machines_.size(); ++i) {
    machines_[i].index = i;
    machines_[i].clock = static_cast<std::int64_t>(random_.Below(40'000)) - 20'000;
    machines_[i].config.may_begin = i == 0;
    machines_[i].config.given = PlaceOf(0);
    machines_[i].config.may_serve = !listed || i < listed_;
    machines_[i].config.place = listed ? i : 0;
    machines_[i].config.thirds_to_let_go = listed ? kThirdsToLetGo : 4;
  }
  Note();
}

// ---- Processes ----
void SuccessionWorld::Start(Machine& machine) {
  if (machine.up) {
    return;
  }
  machine.up = true;
  ++machine.life;
  machine.state = SuccessionState{};
  machine.term = Term{};
  machine.target.reset();
  machine.pool_free.reset();
  machine.witness.reset();
  if (machine.index < listed_) {
    machine.witness.emplace(mutation_.no_memory ? Time{} : agenda_.Now());
  }
  Tell(machine, "starts");
  BeginSuccession(machine.state, agenda_.Now());
  Feed(machine, SuccessionTick{});
  agenda_.After(random_.Between(Duration{0}, Duration{1'000}),
                [this, &machine, life = machine.life] { Poll(machine, life); });
}

void SuccessionWorld::Stop(Machine& machine) {
  if (machine.up) {
    Tell(machine, "is killed");
  }
  machine.up = machine.paused = false;
  ++machine.life;
  ++machine.timer;
  machine.inbox.clear();
  machine.hanging.clear();
  machine.rounds.clear();
  machine.asking = false;
}

// The timer is found before what has arrived, or after it.
void SuccessionWorld::Resume(Machine& machine) {
  if (!machine.paused) {
    return;
  }
  machine.paused = false;
  Tell(machine, "goes on");
  if (random_.Chance(0.5)) {
    Feed(machine, SuccessionTick{});
  }
  while (!machine.inbox.empty() && !machine.paused) {
    const auto next = std::move(machine.inbox.front());
    machine.inbox.pop_front();
    next();
  }
  Feed(machine, SuccessionTick{});
}

void SuccessionWorld::OnLoop(Machine& machine, std::uint64_t life, std::function<void()> what) {
  if (life != machine.life || !machine.up) {
    return;
  }
  if (machine.paused) {
    machine.inbox.push_back([this, &machine, life, what] { OnLoop(machine, life, what); });
    return;
  }
  what();
}

void SuccessionWorld::Feed(Machine& machine, SuccessionEvent event) {
  if (!machine.up || broken_) {
    return;
  }
  Spoil(machine, event);
  const Time now = agenda_.Now();
  hash_ = (hash_ ^ (event.index() + 16 * machine.index)) * 0x100000001b3ULL +
          static_cast<std::uint64_t>(now.time_since_epoch().count());
  for (const SuccessionEffect& effect : Step(machine.state, machine.config, event, now)) {
    CarryOut(machine, effect);
  }
  Arm(machine);
}

void SuccessionWorld::Spoil(Machine& machine, SuccessionEvent& event) {
  SuccessionState& state = machine.state;
  const bool serving = state.phase == SuccessionPhase::kServing;
  if (auto* const read = std::get_if<DirectoryRead>(&event)) {
    const bool known = read->newest && state.newest && read->newest->number == state.newest->number;
    if (mutation_.no_standstill && known && state.still_since) {
      state.still_since = Time{};
      state.newest->counter = read->newest->counter;
    }
    if (mutation_.no_silence && known) {
      state.heard = Time{};
    }
    if (mutation_.count_slow_reads) {
      read->began = agenda_.Now();
    }
  }
  if (mutation_.keep_serving && serving) {
    state.kept = agenda_.Now();
  }
  if (mutation_.no_forgiveness) {
    state.stepped = agenda_.Now();
  }
}

void SuccessionWorld::Arm(Machine& machine) {
  const std::optional<Time> wake = NextWake(machine.state, machine.config);
  const std::uint64_t token = ++machine.timer;
  if (wake) {
    agenda_.At(*wake, [this, &machine, token] {
      if (token == machine.timer && !machine.paused) {
        Feed(machine, SuccessionTick{});
      }
    });
  }
}

void SuccessionWorld::CarryOut(Machine& machine, const SuccessionEffect& effect) {
  std::visit(Overload{
                 [&](const ReadDirectory&) { Read(machine); },
                 [&](const TakeClaim& take) { Take(machine, take); },
                 [&](const MoveCounter& move) { Move(machine, move.claim, true); },
                 [&](const Follow& follow) {
                   Tell(machine, "follows " + ToString(follow.endpoint));
                   machine.target = follow.endpoint;
                 },
                 [&](const StepDown& down) {
                   Tell(machine, "steps down: " + down.text);
                   machine.target.reset();
                   Move(machine, down.claim, false);
                 },
                 [&](const Notice& notice) { Tell(machine, notice.text); },
             },
             effect);
}

// ---- The directory ----
void SuccessionWorld::OnPool(Machine& machine, std::function<void()> work,
                             std::function<void()> done) {
  const Time now = agenda_.Now();
  const Time free = std::max(now, machine.pool_free.value_or(now));
  const Time begin = free + random_.Between(Duration{0}, Duration{20});
  machine.pool_free = begin;
  const std::uint64_t life = machine.life;
  const auto job = [this, &machine, work, done, life] {
    if (life != machine.life) {
      return;  // What a killed process had not begun is never done.
    }
    work();
    agenda_.After(random_.Between(Duration{0}, Duration{20}),
                  [this, &machine, done, life] { OnLoop(machine, life, done); });
  };
  agenda_.At(begin, [&machine, job] {
    if (machine.directory && machine.hanging.empty()) {
      job();
    } else {
      machine.hanging.push_back(job);
    }
  });
}

void SuccessionWorld::Note() {
  const std::optional<Claim> newest =
      directory_.empty() ? std::nullopt : std::optional(directory_.rbegin()->second);
  past_.push_back({agenda_.Now(), newest});
}

void SuccessionWorld::Read(Machine& machine) {
  if (listed_ > 0) {
    ReadList(machine);
    return;
  }
  const auto found = std::make_shared<std::optional<Claim>>();
  const Time began = agenda_.Now();
  const Duration age = trouble_.old_reads && random_.Chance(0.3)
                           ? random_.Between(Duration{0}, Duration{10'000})
                           : Duration{0};
  const bool early = random_.Chance(0.5);  // A read that hangs may have seen what was at its start.
  OnPool(
      machine,
      [this, found, began, age, early] {
        const Time seen = (early ? began : agenda_.Now()) - age;
        for (const Snapshot& snapshot : past_) {
          if (snapshot.when <= seen) {
            *found = snapshot.newest;
          }
        }
      },
      [this, &machine, found, began] {
        Feed(machine, DirectoryRead{began, *found});
      });
}

// Claim made: what must be true of it.
void SuccessionWorld::Note(const Machine& machine, const Claim& claim) {
  if (machine.everybody_new) {
    directory_.clear();  // Nobody remembers: all of the list have ended since.
  }
  for (const auto& [number, other] : directory_) {
    if (listed_ == 0 && number < claim.number && other.term >= claim.term) {
      Break("claim " + std::to_string(claim.number) + " has no later term than claim " +
            std::to_string(number));
    }
  }
  if (!terms_.insert(claim.term).second) {
    Break("two servers reign under one term");
  }
  Tell(machine, "makes claim " + std::to_string(claim.number));
  directory_[claim.number] = claim;
  Note();
}

void SuccessionWorld::Take(Machine& machine, const TakeClaim& take) {
  const auto wall =
      static_cast<std::uint64_t>(agenda_.Now().time_since_epoch() / 1ms + machine.clock);
  Claim claim{take.number, {wall * 16}, PlaceOf(machine.index), 0, false};
  if (!mutation_.forget_terms) {
    claim.term = std::max(claim.term, take.above.Next());
  }
  if (listed_ > 0) {
    claim.number = take.number == 1 ? claim.term.value : take.number;
    TakeOnList(machine, claim);
    return;
  }
  const auto made = std::make_shared<bool>();
  const Time began = agenda_.Now();
  OnPool(
      machine,
      [this, claim, made, index = machine.index] {
        *made = mutation_.no_exclusion || !directory_.contains(claim.number);
        if (*made) {
          Note(machines_[index], claim);
        }
      },
      [this, &machine, claim, made, began] {
        if (*made) {
          machine.target = PlaceOf(machine.index);
          Feed(machine, Claimed{began, claim});
        } else {
          Feed(machine, NotClaimed{true, ""});
        }
      });
}

void SuccessionWorld::Move(Machine& machine, const Claim& claim, bool answers) {
  if (listed_ > 0) {
    MoveOnList(machine, claim, answers);
    return;
  }
  const auto superseded = std::make_shared<bool>();
  const Time began = agenda_.Now();
  OnPool(
      machine,
      [this, claim, superseded] {
        directory_[claim.number] = claim;
        *superseded = directory_.contains(claim.number + 1);
        Note();
      },
      [this, &machine, claim, superseded, began, answers] {
        if (answers) {
          Feed(machine, CounterMoved{began, claim, *superseded});
        }
      });
}

// ---- The agents' calls ----
bool SuccessionWorld::Reaches(const Machine& from, const Machine& to) const {
  return &from == &to || (from.link && to.link && !cuts_.contains({from.index, to.index}));
}

void SuccessionWorld::Poll(Machine& machine, std::uint64_t life) {
  if (life != machine.life || broken_) {
    return;
  }
  agenda_.After(1s, [this, &machine, life] { Poll(machine, life); });
  if (machine.paused || !machine.target) {
    return;
  }
  for (Machine& server : machines_) {
    const bool reached = Reaches(machine, server) && Reaches(server, machine);
    if (PlaceOf(server.index) != *machine.target || !reached || !server.up || server.paused ||
        server.state.phase != SuccessionPhase::kServing) {
      continue;
    }
    const Term term = server.state.newest->term;
    if (machine.term > term) {
      Feed(server, LaterTermHeard{machine.term});
      continue;
    }
    machine.term = term;
    agenda_.After(random_.Between(Duration{1}, Duration{20}), [this, &machine, life, term] {
      OnLoop(machine, life, [this, &machine, term] { Feed(machine, ServerHeard{term, kLease}); });
    });
  }
}

void SuccessionWorld::Break(std::string text) {
  if (!broken_) {
    broken_ = std::move(text);
  }
}

void SuccessionWorld::Tell(const Machine& machine, const std::string& text) {
  if (verbose_) {
    const auto at = (agenda_.Now() - Time{1000s}) / 1ms;
    std::printf("%8lld  n%zu  %s\n", static_cast<long long>(at), machine.index, text.c_str());
  }
}

}  // namespace ddprun::sim
