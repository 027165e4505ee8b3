// Answers of an untrusted directory and untrusted servers to a candidate, well formed and never
// true.
//
// It asks for one thing at a time, and never again and again at once; serves what it has claimed
// alone, and claims only beyond what it knows; moves its own claim alone, and its counter only
// upwards.
#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "common/overload.h"
#include "rendezvous/core/failover/failover.h"
#include "rendezvous/core/failover/serving.h"
#include "tests/fuzz/fuzz_input.h"

namespace {

using namespace ddprun;

constexpr int kMostEvents = 400;
constexpr std::uint64_t kEnd = std::uint64_t{1} << 50;  // Beyond it the border believes nothing.
constexpr Duration kLongest = std::chrono::hours(24 * 366 * 10);  // As the border takes it.

Duration SomeTime(FuzzInput& input) {
  return OneOf(input, std::array{Duration{0}, Duration{10}, Duration{500}, Duration{1'000},
                                 Duration{3'000}, Duration{7'000}, kLongest});
}

Claim SomeClaim(FuzzInput& input, std::uint64_t near) {
  Claim claim;
  claim.number = OneOf(input, std::array<std::uint64_t, 6>{1, near, near + 1, 7, kEnd - 1, kEnd});
  claim.term = {OneOf(input, std::array<std::uint64_t, 6>{0, 1, near, near + 1, kEnd - 1, kEnd})};
  claim.endpoint = {input.Byte() % 2 == 0 ? "n0" : "n1", 1};
  claim.counter = OneOf(input, std::array<std::uint64_t, 4>{0, 1, 2, std::uint64_t{1} << 40});
  const std::uint8_t bits = input.Byte();
  claim.closed = bits % 4 == 0;
  claim.over = claim.closed && bits % 8 == 0;
  return claim;
}

class Node {
 public:
  explicit Node(FuzzInput& input) {
    const std::uint8_t kind = input.Byte();
    config_.may_begin = (kind & 1) != 0;
    config_.listens = (kind & 8) != 0;
    config_.given = {"n0", 1};
    BeginFailover(state_, now_);
  }

  void Happens(FuzzInput& input) {
    const std::uint64_t near = state_.newest ? state_.newest->number : 1;
    switch (input.Byte() % 10) {
      case 0:
      case 1:
        return IsAnswered(input, near);
      case 2:
        return Feed(ServerHeard{SomeClaim(input, near).term, SomeTime(input)});
      case 3:
        if (state_.phase == FailoverPhase::kServing) {
          Feed(LaterTermHeard{SomeClaim(input, near).term});
        }
        return;
      case 4:
        now_ += SomeTime(input) % Duration{100'000};
        return Feed(FailoverTick{});
      default:
        return WakesUp();
    }
  }

  void WakesUp() {
    const std::optional<Time> wake = NextWake(state_, config_);
    CHECK(wake || asked_ != Asked::kNothing);  // Else it stands still for ever.
    if (wake) {
      now_ = std::max(now_, *wake);
      Feed(FailoverTick{});
    }
  }

 private:
  enum class Asked { kNothing, kRead, kClaim, kMove };

  void IsAnswered(FuzzInput& input, std::uint64_t near) {
    const Asked asked = std::exchange(asked_, Asked::kNothing);
    const std::uint8_t how = input.Byte();
    if (asked == Asked::kRead) {
      if (how % 4 == 0) {
        return Feed(ClaimsUnreadable{"no"});
      }
      const bool some = how % 4 != 3;
      Feed(ClaimsRead{began_, some ? std::optional(SomeClaim(input, near)) : std::nullopt});
    } else if (asked == Asked::kClaim) {
      if (how % 2 == 0) {
        return Feed(NotClaimed{how % 4 == 0, "no"});
      }
      Claim claim{wanted_, {std::max(above_.value, above_.value + 1)}, {"n0", 1}, 0};
      Feed(Claimed{began_, claim});
      CHECK(state_.phase == FailoverPhase::kServing);
      served_ = claim;
    } else if (asked == Asked::kMove) {
      if (how % 4 == 0) {
        return Feed(CounterStuck{moved_.term, "no"});
      }
      Feed(CounterMoved{began_, moved_, how % 8 == 1});
    }
  }

  void Asks(Asked what) {
    CHECK(asked_ == Asked::kNothing);
    asked_ = what;
    began_ = now_;
  }

  void Feed(const FailoverEvent& event) {
    for (const FailoverEffect& effect : Step(state_, config_, event, now_)) {
      std::visit(Overload{
                     [&](const ReadClaims&) { Asks(Asked::kRead); },
                     [&](const TakeClaim& take) {
                       CHECK(!state_.newest || take.number > state_.newest->number);
                       Asks(Asked::kClaim);
                       wanted_ = take.number;
                       above_ = take.above;
                     },
                     [&](const MoveCounter& move) {
                       CHECK(served_ && move.claim.number == served_->number);
                       CHECK(move.claim.counter > served_->counter);
                       served_->counter = move.claim.counter;
                       Asks(Asked::kMove);
                       moved_ = move.claim;
                     },
                     [&](const Follow& follow) { CHECK(!follow.endpoint.host.empty()); },
                     [&](const StepDown& down) {
                       CHECK(served_ && down.claim.number == served_->number);
                       CHECK(!down.text.empty());
                       served_.reset();
                       asked_ = Asked::kNothing;  // During a move no second one begins.
                     },
                     [&](const Notice& notice) { CHECK(!notice.text.empty()); },
                 },
                 effect);
    }
    CHECK(served_.has_value() == (state_.phase == FailoverPhase::kServing) ||
          std::holds_alternative<Claimed>(event));
    const std::optional<Time> wake = NextWake(state_, config_);
    if (std::holds_alternative<FailoverTick>(event)) {
      CHECK(!wake || *wake > now_);
    }
  }

  FailoverState state_;
  FailoverConfig config_;
  Time now_{std::chrono::hours(1'000)};
  Asked asked_ = Asked::kNothing;
  Time began_;
  std::uint64_t wanted_ = 0;
  Term above_;
  Claim moved_;
  std::optional<Claim> served_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  FuzzInput input(data, size);
  const std::size_t before = AllocatedBytes();
  Node node(input);
  for (int i = 0; i < kMostEvents && !input.Rest().empty(); ++i) {
    node.Happens(input);
  }
  CHECK(AllocatedBytes() <= before + (1 << 20));  // Nothing stays.
  return 0;
}
