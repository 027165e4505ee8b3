// The workers' part in histories of slow work (--slow): they prepare, join, and meet in one
// collective after another. Between these they work, perhaps for longer than --hang-timeout; one of
// them may hang. And the reports on each: its own words, rank 0's output, or its collectives as
// _ddprun_watch.py reports them, once a second.
//
// A rank that only works must never be taken for hung; one that hangs must be found, in time, and
// named where collectives are reported.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "proto/worker_word.h"
#include "rendezvous/messages/messages.h"
#include "tests/sim/event_queue.h"
#include "tests/sim/transcript.h"

namespace ddprun::sim {

enum class Heard { kTold, kPrinted, kCollectives };

struct SlowWork {
  enum Kind : std::uint64_t { kOneRank, kCompile, kSave, kPrepare, kEnd, kKinds };
  Kind kind = kOneRank;
  Heard heard = Heard::kCollectives;
  std::uint64_t steps = 20;
  std::uint32_t slow_rank = 0;
  Duration longest{0};  // Unannounced, while others wait.
  std::optional<std::uint32_t> hangs;
  Duration hangs_after{0};  // Of the world's beginning.
};

class Workload {
 public:
  using Tell = std::function<void(const WorkerWord&)>;

  // `timeout`: --hang-timeout.
  Workload(EventQueue& event_queue, Random& random, const SlowWork& slow, Duration timeout,
           std::uint32_t ranks)
      : event_queue_(event_queue), random_(random), slow_(slow), timeout_(timeout), hands_(ranks) {
    if (slow_.hangs) {
      event_queue_.After(slow_.hangs_after, [this] { Hang(); });
    }
  }

  void Join(std::uint32_t rank, Tell tell, std::function<void(Duration)> end) {
    Hand& hand = hands_.at(rank);
    hand.there = true;
    hand.moved = event_queue_.Now();
    hand.tell = std::move(tell);
    hand.end = std::move(end);
    Duration prepares = random_.Between(5ms, 500ms);
    if (slow_.kind == SlowWork::kPrepare) {
      prepares = random_.Between(5ms, 3 * timeout_);
    }
    if (slow_.heard == Heard::kCollectives) {
      Watch(rank);
    }
    After(rank, prepares, &Workload::Arrive);
  }
  // It is no more.
  void Leave(std::uint32_t rank) { hands_.at(rank).there = false; }

  // The world is stopped as hung, or the run is over: what is wrong with that; empty: nothing.
  std::string Found(Time now) const {
    if (!hung_) {
      return "a world was stopped as hung in which everybody works";
    }
    // The longest work of its peers before they waited for it, and their longest announcement.
    const Duration others = 4 * timeout_;
    return now - *hung_ > others + timeout_ + kFoundWithin
               ? Words("rank ", *slow_.hangs, " hung for long before it was found")
               : "";
  }
  std::string WrongEnd(const std::optional<WorkerFailure>& root, bool succeeded) const {
    if (!hung_) {
      return succeeded ? "" : "a run in which everybody works did not succeed";
    }
    if (!root || root->hang.empty()) {
      return Words("rank ", *slow_.hangs, " hung, and was not found");
    }
    const bool named = root->rank == *slow_.hangs && !root->nobody_lags;
    return slow_.heard != Heard::kCollectives || named
               ? ""
               : Words("rank ", *slow_.hangs, " hung, and what is told is rank ", root->rank, ": ",
                       root->hang);
  }

 private:
  static constexpr Duration kEachLook{1'000};
  static constexpr Duration kFoundWithin{
      5'000};  // Beyond the time-out, and what peers still worked.
  static constexpr std::uint64_t kCompileStep = 3;
  static constexpr std::uint64_t kSaveEvery = 5;

  struct Hand {
    bool there = false, joining = false, waits = false, waited = false, hung = false;
    std::uint64_t begun = 0;
    std::optional<std::pair<std::uint64_t, bool>> told;
    Time moved;
    Tell tell;
    std::function<void(Duration)> end;
  };

  void After(std::uint32_t rank, Duration delay, void (Workload::*what)(std::uint32_t)) {
    event_queue_.After(delay, [this, rank, what] {
      if (hands_[rank].there) {
        (this->*what)(rank);
      }
    });
  }
  void Arrive(std::uint32_t rank) {
    Hand& hand = hands_[rank];
    if (hand.hung) {
      return;
    }
    hand.joining = true;
    if (slow_.heard == Heard::kTold) {
      hand.tell({.ready = true});
    }
    if (std::ranges::all_of(hands_, &Hand::joining)) {
      for (std::uint32_t each = 0; each < hands_.size(); ++each) {
        Work(each);
      }
    }
  }
  void Enter(std::uint32_t rank) {
    Hand& hand = hands_[rank];
    if (hand.hung) {
      return;
    }
    ++hand.begun;
    hand.waits = true;
    const auto here = [&](const Hand& one) { return one.waits && one.begun == hand.begun; };
    if (std::ranges::all_of(hands_, here)) {
      Release();
    }
  }
  void Release() {
    for (std::uint32_t rank = 0; rank < hands_.size(); ++rank) {
      Hand& hand = hands_[rank];
      hand.waits = false;
      if (hand.hung) {
        continue;
      }
      WorkerWord word;
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
  void Work(std::uint32_t rank) {
    Hand& hand = hands_[rank];
    if (hand.hung) {
      return;
    }
    const Duration lasts = LengthOf(rank, hand.begun);
    if (slow_.heard == Heard::kTold && lasts > slow_.longest) {
      WorkerWord announced;
      announced.extend = lasts + 2'000ms;
      hand.tell(announced);
    }
    After(rank, lasts, &Workload::Enter);
  }
  // The watch's last look reports that it waits for no rank any more; its end may last.
  void End(std::uint32_t rank) {
    if (slow_.heard == Heard::kCollectives) {
      Look(hands_[rank]);
    }
    const bool lasts = slow_.kind == SlowWork::kEnd && slow_.heard == Heard::kCollectives;
    hands_[rank].end(random_.Between(0ms, lasts ? 2 * timeout_ : 100ms));
  }
  void Hang() {
    Hand& hand = hands_.at(*slow_.hangs);
    // There is no promise to find one before the first word of those that are heard.
    const Hand& speaks = slow_.heard == Heard::kPrinted ? hands_.front() : hand;
    const bool heard =
        slow_.heard == Heard::kCollectives || speaks.begun > (speaks.waits ? 1U : 0U);
    if (hand.there && heard && hand.begun < slow_.steps) {
      hand.hung = true;
      hung_ = event_queue_.Now();
    }
  }
  void Watch(std::uint32_t rank) {
    Look(hands_[rank]);
    After(rank, kEachLook, &Workload::Watch);
  }
  void Look(Hand& hand) {
    WorkerWord seen;
    seen.collectives = hand.begun;
    seen.world_collectives = hand.begun;
    if (hand.begun == 0) {
      const Time now = event_queue_.Now();
      hand.moved = hand.joining || hand.hung ? hand.moved : now;
      seen.in_collective = hand.joining;
      seen.still = now - hand.moved;
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
  // Longer than the time-out only where the rules of docs/watching.md allow it: what all do at once
  // while collectives tell, what is announced, or what precedes the first line that is printed.
  Duration LengthOf(std::uint32_t rank, std::uint64_t step) {
    const std::uint64_t compiles = slow_.heard == Heard::kPrinted ? 0 : kCompileStep;
    if (slow_.kind == SlowWork::kCompile && step == compiles) {
      return 2 * timeout_ + random_.Between(0ms, slow_.longest);
    }
    if (slow_.kind == SlowWork::kOneRank && rank == slow_.slow_rank && random_.Chance(0.5)) {
      return random_.Between(0ms, slow_.longest);
    }
    if (slow_.kind == SlowWork::kSave && rank == 0 && step > 0 && step % kSaveEvery == 0) {
      return slow_.heard == Heard::kTold ? 3 * timeout_ : slow_.longest;
    }
    return random_.Between(20ms, 400ms);
  }

  EventQueue& event_queue_;
  Random& random_;
  const SlowWork slow_;
  const Duration timeout_;
  std::vector<Hand> hands_;
  std::optional<Time> hung_;
};

}  // namespace ddprun::sim
