// For the tests of failover: one node, what it reads and hears, and what it does then.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <variant>
#include <vector>

#include "rendezvous/core/failover/failover.h"
#include "rendezvous/core/failover/serving.h"

namespace ddprun::failover {

using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;

inline Time At(Duration since_start) {
  return Time{std::chrono::seconds(1'000) + since_start};
}

inline Claim ClaimOf(std::uint64_t number, std::uint64_t counter) {
  return {number, Term{100 * number}, {"n" + std::to_string(number), 29400}, counter, false};
}

// One node's failover; every event is followed by what the driver would ask.
struct Node {
  FailoverState state;
  FailoverConfig config;
  std::vector<FailoverEffect> effects;  // Of the last event.

  explicit Node(bool may_begin) {
    config.may_begin = may_begin;
    // Scenarios count their times from it; nothing lengthens it.
    config.lease = config.long_lease = Duration{3'000};
    config.given = {"n1", 29400};
    BeginFailover(state, At(Duration{0}));
  }
  void Feed(const FailoverEvent& event, Time now) { effects = Step(state, config, event, now); }
  void Tick(Time now) { Feed(FailoverTick{}, now); }
  // A read that takes no time.
  void Read(std::optional<Claim> newest, Time now) {
    Tick(now);
    EXPECT_TRUE(Has<ReadClaims>()) << "nothing was to be read";
    Feed(ClaimsRead{now, std::move(newest)}, now);
  }
  void Heard(Term term, Time now) { Feed(ServerHeard{term, Duration{3'000}}, now); }
  void Serve(std::uint64_t number, Time now) {
    Feed(Claimed{now, ClaimOf(number, 0)}, now);
    ASSERT_EQ(state.phase, FailoverPhase::kServing);
  }
  // A write that takes no time.
  void Move(Time now, bool superseded = false) {
    Tick(now);
    ASSERT_TRUE(Has<MoveCounter>()) << "nothing was to be written";
    Feed(CounterMoved{now, Get<MoveCounter>().claim, superseded}, now);
  }

  template <class T>
  bool Has() const {
    for (const FailoverEffect& effect : effects) {
      if (std::holds_alternative<T>(effect)) {
        return true;
      }
    }
    return false;
  }
  template <class T>
  const T& Get() const {
    for (const FailoverEffect& effect : effects) {
      if (const T* const found = std::get_if<T>(&effect)) {
        return *found;
      }
    }
    static const T kNone{};
    ADD_FAILURE() << "no such effect";
    return kNone;
  }
  // Reads as often as it wants to until `end`, and finds this; true: it wants to take over.
  bool ReadUntil(Time end, const std::optional<Claim>& newest) {
    for (auto wake = NextWake(state, config); wake && *wake <= end;
         wake = NextWake(state, config)) {
      Read(newest, *wake);
      if (Has<TakeClaim>()) {
        return true;
      }
    }
    return false;
  }
};

// It serves by claim 1.
inline Node Holder() {
  Node node(true);
  node.Serve(1, At(Duration{0}));
  return node;
}

// A follower of claim 1 that has heard its server once.
inline Node Follower() {
  Node node(false);
  node.Read(ClaimOf(1, 5), At(Duration{0}));
  node.Heard(Term{100}, At(Duration{0}));
  return node;
}

}  // namespace ddprun::failover
