#include "tests/sim/labour.h"

#include <algorithm>
#include <utility>

#include "tests/sim/simulation.h"

namespace ddprun::sim {
namespace {

constexpr Duration kEachLook{1'000};
constexpr Duration kFoundWithin{5'000};  // Beyond the time-out, and what peers still worked.
constexpr std::uint64_t kCompileStep = 3;
constexpr std::uint64_t kSaveEvery = 5;

}  // namespace

Labour::Labour(Simulation& simulation, std::uint32_t ranks)
    : simulation_(simulation), slow_(*simulation.setup.slow), hands_(ranks) {
  if (slow_.hangs) {
    simulation_.agenda.After(slow_.hangs_after, [this] { Hang(); });
  }
}

void Labour::After(std::uint32_t rank, Duration delay, void (Labour::*what)(std::uint32_t)) {
  simulation_.agenda.After(delay, [this, rank, what] {
    if (hands_[rank].there) {
      (this->*what)(rank);
    }
  });
}

void Labour::Join(std::uint32_t rank, Tell tell, std::function<void(Duration)> end) {
  Hand& hand = hands_.at(rank);
  hand.there = true;
  hand.moved = simulation_.agenda.Now();
  hand.tell = std::move(tell);
  hand.end = std::move(end);
  const Duration timeout = simulation_.setup.hang_timeout;
  Duration prepares = simulation_.random.Between(Duration{5}, Duration{500});
  if (slow_.kind == SlowWork::kPrepare) {
    prepares = simulation_.random.Between(Duration{5}, 3 * timeout);
  }
  if (slow_.heard == Heard::kCollectives) {
    Watch(rank);
  }
  After(rank, prepares, &Labour::Arrive);
}

void Labour::Leave(std::uint32_t rank) {
  hands_.at(rank).there = false;
}

void Labour::Arrive(std::uint32_t rank) {
  Hand& hand = hands_[rank];
  if (hand.hung) {
    return;
  }
  hand.joining = true;
  if (slow_.heard == Heard::kTold) {
    hand.tell({.ready = true});
  }
  if (std::all_of(hands_.begin(), hands_.end(), [](const Hand& one) { return one.joining; })) {
    for (std::uint32_t each = 0; each < hands_.size(); ++each) {
      Work(each);
    }
  }
}

void Labour::Work(std::uint32_t rank) {
  Hand& hand = hands_[rank];
  if (hand.hung) {
    return;
  }
  const Duration lasts = LengthOf(rank, hand.begun);
  if (slow_.heard == Heard::kTold && lasts > slow_.longest) {
    Notification announced;
    announced.extend_microseconds = static_cast<std::uint64_t>(lasts.count() + 2'000) * 1'000;
    hand.tell(announced);
  }
  After(rank, lasts, &Labour::Enter);
}

// Longer than the time-out only where the rules of docs/watching.md allow it: what all do at once
// while collectives tell, what is announced, or what precedes the first line that is printed.
Duration Labour::LengthOf(std::uint32_t rank, std::uint64_t step) {
  Random& random = simulation_.random;
  const Duration timeout = simulation_.setup.hang_timeout;
  const std::uint64_t compiles = slow_.heard == Heard::kPrinted ? 0 : kCompileStep;
  if (slow_.kind == SlowWork::kCompile && step == compiles) {
    return 2 * timeout + random.Between(Duration{0}, slow_.longest);
  }
  if (slow_.kind == SlowWork::kOneRank && rank == slow_.slow_rank && random.Chance(0.5)) {
    return random.Between(Duration{0}, slow_.longest);
  }
  if (slow_.kind == SlowWork::kSave && rank == 0 && step > 0 && step % kSaveEvery == 0) {
    return slow_.heard == Heard::kTold ? 3 * timeout : slow_.longest;
  }
  return random.Between(Duration{20}, Duration{400});
}

void Labour::Enter(std::uint32_t rank) {
  Hand& hand = hands_[rank];
  if (hand.hung) {
    return;
  }
  ++hand.begun;
  hand.waits = true;
  const auto here = [&](const Hand& one) { return one.waits && one.begun == hand.begun; };
  if (std::all_of(hands_.begin(), hands_.end(), here)) {
    Release();
  }
}

void Labour::Release() {
  for (std::uint32_t rank = 0; rank < hands_.size(); ++rank) {
    Hand& hand = hands_[rank];
    hand.waits = false;
    if (hand.hung) {
      continue;
    }
    Notification word;
    if (slow_.heard == Heard::kTold) {
      word.step = hand.begun;
      hand.tell(word);
    } else if (slow_.heard == Heard::kPrinted && rank == 0) {
      word.printed = word.printed_step = hand.begun;
      hand.tell(word);
    }
    if (hand.begun < slow_.steps) {
      Work(rank);
    } else {
      End(rank);
    }
  }
}

// The watch's last look tells that it waits for nobody any more; its end may last.
void Labour::End(std::uint32_t rank) {
  if (slow_.heard == Heard::kCollectives) {
    Look(hands_[rank]);
  }
  const Duration timeout = simulation_.setup.hang_timeout;
  const bool lasts = slow_.kind == SlowWork::kEnd && slow_.heard == Heard::kCollectives;
  hands_[rank].end(simulation_.random.Between(Duration{0}, lasts ? 2 * timeout : Duration{100}));
}

void Labour::Hang() {
  Hand& hand = hands_.at(*slow_.hangs);
  // Nobody promises to find one before the first word of those that are heard.
  const Hand& speaks = slow_.heard == Heard::kPrinted ? hands_.front() : hand;
  const bool heard = slow_.heard == Heard::kCollectives || speaks.begun > (speaks.waits ? 1U : 0U);
  if (hand.there && heard && hand.begun < slow_.steps) {
    hand.hung = true;
    hung_ = simulation_.agenda.Now();
  }
}

void Labour::Watch(std::uint32_t rank) {
  Look(hands_[rank]);
  After(rank, kEachLook, &Labour::Watch);
}

void Labour::Look(Hand& hand) {
  Notification seen;
  seen.collectives = hand.begun;
  seen.world_collectives = hand.begun;
  if (hand.begun == 0) {
    const Time now = simulation_.agenda.Now();
    hand.moved = hand.joining || hand.hung ? hand.moved : now;
    seen.in_collective = hand.joining;
    seen.still_microseconds = static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::microseconds>(now - hand.moved).count());
    hand.tell(seen);
    return;
  }
  // Once its place is the same at two looks.
  seen.in_collective = hand.waits && hand.waited;
  hand.waited = hand.waits;
  const std::pair told(hand.begun, seen.in_collective);
  if (hand.told != told) {
    hand.told = told;
    hand.tell(seen);
  }
}

std::string Labour::Found(Time now) const {
  if (!hung_) {
    return "a world was stopped as hung in which everybody works";
  }
  // What its peers still worked before they waited for it, and their longest announcement.
  const Duration timeout = simulation_.setup.hang_timeout;
  const Duration others = 4 * timeout;
  return now - *hung_ > others + timeout + kFoundWithin
             ? "rank " + std::to_string(*slow_.hangs) + " hung for long before it was found"
             : "";
}

std::string Labour::WrongEnd(const std::optional<WorkerFailure>& root, bool succeeded) const {
  if (!hung_) {
    return succeeded ? "" : "a run in which everybody works did not succeed";
  }
  if (!root || root->hang.empty()) {
    return "rank " + std::to_string(*slow_.hangs) + " hung, and was not found";
  }
  const bool named = root->rank == *slow_.hangs && !root->nobody_lags;
  return slow_.heard != Heard::kCollectives || named
             ? ""
             : "rank " + std::to_string(*slow_.hangs) + " hung, and what is told is rank " +
                   std::to_string(root->rank) + ": " + root->hang;
}

}  // namespace ddprun::sim
