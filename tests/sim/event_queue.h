// The simulation's time: what happens next, in order; and the only source of its chances.
//
// Two things due at the same moment happen in the order in which they were asked for, so a seed
// always gives the same history.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <utility>

#include "common/time.h"

namespace ddprun::sim {

using namespace std::chrono_literals;

// Of a history. Not zero: no time is "never".
constexpr Time kBegin{1'000s};

class EventQueue {
 public:
  Time Now() const { return now_; }

  void At(Time when, std::function<void()> what) {
    due_.emplace(std::pair(std::max(when, now_), ++order_), std::move(what));
  }
  void After(CoreClock::duration delay, std::function<void()> what) {
    At(now_ + delay, std::move(what));
  }

  // Does the next thing due by `end`; false when there is none.
  bool DoNext(Time end) {
    if (due_.empty() || due_.begin()->first.first > end) {
      return false;
    }
    auto next = due_.extract(due_.begin());
    now_ = next.key().first;
    next.mapped()();
    return true;
  }

 private:
  Time now_{};
  std::uint64_t order_ = 0;
  std::map<std::pair<Time, std::uint64_t>, std::function<void()>> due_;
};

// SplitMix64 (Steele, Lea, Flood 2014): the same numbers on every machine, unlike <random>.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t Next() {
    std::uint64_t value = state_ += 0x9e3779b97f4a7c15ULL;
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ULL;
    value = (value ^ (value >> 27)) * 0x94d049bb133111ebULL;
    return value ^ (value >> 31);
  }
  std::uint64_t Below(std::uint64_t end) { return Next() % end; }
  std::uint64_t Between(std::uint64_t first, std::uint64_t last) {
    return first + Below(last - first + 1);
  }
  Duration Between(Duration first, Duration last) {
    return Duration(static_cast<Duration::rep>(Between(static_cast<std::uint64_t>(first.count()),
                                                       static_cast<std::uint64_t>(last.count()))));
  }
  bool Chance(double probability) {
    return static_cast<double>(Next() >> 11) * 0x1.0p-53 < probability;
  }

 private:
  std::uint64_t state_;
};

}  // namespace ddprun::sim
