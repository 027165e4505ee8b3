// SuccessionWorld: what goes wrong, and what must never happen.
#include <algorithm>
#include <utility>

#include "tests/sim/succession_world.h"

namespace ddprun::sim {
namespace {

using std::chrono_literals::operator""s;

constexpr Duration kTrouble{60'000};
constexpr Duration kSettling{30'000};
constexpr Duration kLook{50};
constexpr int kLooksTogether = 3;  // Waking, a process has a moment to find out.

}  // namespace

// ---- What goes wrong ----
void SuccessionWorld::TroubleSoon(Time end) {
  // Blips that follow each other closely are one that is longer.
  const Duration least{trouble_.blips_only ? 9'000 : 3'000};
  const Duration gap = random_.Between(least, least + Duration{6'000});
  agenda_.After(gap, [this, end] {
    if (agenda_.Now() >= end) {
      return;
    }
    TroubleSoon(end);
    Machine& machine = machines_[random_.Below(machines_.size())];
    const Duration lasts = trouble_.blips_only ? random_.Between(Duration{50}, Duration{2'900})
                                               : random_.Between(Duration{50}, Duration{20'000});
    const std::uint64_t kind = random_.Below(trouble_.blips_only ? 3 : 4);
    if (kind == 0 && !trouble_.old_reads) {
      machine.link = false;
      Tell(machine, "is cut off");
      agenda_.After(lasts, [&machine] { machine.link = true; });
    } else if (kind == 1 && listed_ > 0) {
      const std::size_t other = random_.Below(machines_.size());
      const bool both = random_.Chance(0.5);
      Tell(machine, "does not reach n" + std::to_string(other) + (both ? ", nor it this one" : ""));
      cuts_.insert({machine.index, other});
      if (both) {
        cuts_.insert({other, machine.index});
      }
      agenda_.After(lasts, [this, &machine, other] {
        cuts_.erase({machine.index, other});
        cuts_.erase({other, machine.index});
      });
    } else if (kind == 1) {
      machine.directory = false;
      Tell(machine, "waits for the directory");
      agenda_.After(lasts, [&machine] {
        machine.directory = true;
        for (const auto& job : std::exchange(machine.hanging, {})) {
          job();
        }
      });
    } else if (kind == 2 && machine.up) {
      machine.paused = true;
      Tell(machine, "stands still");
      agenda_.After(lasts, [this, &machine] { Resume(machine); });
    } else if (kind == 3 && !trouble_.old_reads) {
      Stop(machine);
      agenda_.After(lasts, [this, &machine] { Start(machine); });
    }
  });
}

void SuccessionWorld::Heal() {
  cuts_.clear();
  for (Machine& machine : machines_) {
    machine.link = machine.directory = true;
    for (const auto& job : std::exchange(machine.hanging, {})) {
      job();
    }
    Resume(machine);
    Start(machine);
  }
  trouble_.old_reads = false;
}

// ---- What must never happen ----
void SuccessionWorld::Watch() {
  const auto active = std::count_if(machines_.begin(), machines_.end(), [](const Machine& machine) {
    return machine.up && !machine.paused && machine.state.phase == SuccessionPhase::kServing;
  });
  overlaps_ = active > 1 ? overlaps_ + 1 : 0;
  if (overlaps_ >= kLooksTogether) {
    Break("two servers act side by side");
  }
  agenda_.After(kLook, [this] { Watch(); });
}

bool SuccessionWorld::Settled() const {
  const Claim& newest = directory_.rbegin()->second;
  return std::all_of(machines_.begin(), machines_.end(), [&](const Machine& machine) {
    const bool serves = machine.state.phase == SuccessionPhase::kServing;
    return machine.target == newest.endpoint &&
           serves == (PlaceOf(machine.index) == newest.endpoint);
  });
}

std::optional<std::string> SuccessionWorld::Play() {
  const Time begin = agenda_.Now();
  for (Machine& machine : machines_) {
    agenda_.After(random_.Between(Duration{0}, Duration{500}),
                  [this, &machine] { Start(machine); });
  }
  Watch();
  agenda_.After(5s, [this, begin] { TroubleSoon(begin + kTrouble); });
  const auto run_until = [this](Time end) {
    while (!broken_ && agenda_.DoNext(end)) {
    }
  };
  run_until(begin + kTrouble + 25s);
  if (!broken_ && trouble_.blips_only && directory_.size() != 1) {
    Break("a blip made " + std::to_string(directory_.size()) + " claims");
  }
  Heal();
  run_until(agenda_.Now() + kSettling);
  const std::size_t claims = directory_.size();
  if (!broken_ && !Settled()) {
    Break("long after healing there is not one server that all follow");
  }
  run_until(agenda_.Now() + kSettling);
  if (!broken_ && directory_.size() != claims) {
    Break("the server changes though everything is well");
  }
  return broken_;
}

}  // namespace ddprun::sim
