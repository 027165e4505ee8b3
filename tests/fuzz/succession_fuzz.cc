// What a directory, a list's nodes and servers that nobody can trust may bring the two halves of a
// takeover to, well formed and never true.
//
//   one node        asks for one thing at a time, and never again and again at once; serves what it
//                   has claimed alone, claims only beyond what it knows, and never where it may
//                   not; moves its own claim alone, and its counter only upwards
//   one witness     backs one maker of a number alone until that one is released; its claim's
//                   counter never falls, and a closed claim stays closed
//   one round       is decided only where the answers to come can change nothing
#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "common/check.h"
#include "common/overload.h"
#include "rendezvous/core/succession/serving.h"
#include "rendezvous/core/succession/succession.h"
#include "rendezvous/core/succession/witness.h"
#include "tests/fuzz/fuzz_input.h"

namespace {

using namespace ddprun;

constexpr int kMostEvents = 400;
constexpr std::uint64_t kEnd = std::uint64_t{1} << 50;  // Beyond it the border believes nothing.
constexpr Duration kLongest = std::chrono::hours(24 * 366 * 10);  // As the border takes it.

template <class Value, std::size_t kSize>
Value OneOf(FuzzInput& input, const std::array<Value, kSize>& values) {
  return values[input.Byte() % kSize];
}

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

// ---- One node ----
class Node {
 public:
  explicit Node(FuzzInput& input) {
    const std::uint8_t kind = input.Byte();
    config_.may_serve = (kind & 6) != 0;
    config_.may_begin = config_.may_serve && (kind & 1) != 0;
    config_.listens = (kind & 8) != 0;
    config_.given = {"n0", 1};
    config_.place = kind >> 6;
    BeginSuccession(state_, now_);
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
        if (state_.phase == SuccessionPhase::kServing) {
          Feed(LaterTermHeard{SomeClaim(input, near).term});
        }
        return;
      case 4:
        now_ += SomeTime(input) % Duration{100'000};
        return Feed(SuccessionTick{});
      default:
        return WakesUp();
    }
  }

  void WakesUp() {
    const std::optional<Time> wake = NextWake(state_, config_);
    CHECK(wake || asked_ != Asked::kNothing);  // Else it stands still for ever.
    if (wake) {
      now_ = std::max(now_, *wake);
      Feed(SuccessionTick{});
    }
  }

 private:
  enum class Asked { kNothing, kRead, kClaim, kMove };

  void IsAnswered(FuzzInput& input, std::uint64_t near) {
    const Asked asked = std::exchange(asked_, Asked::kNothing);
    const std::uint8_t how = input.Byte();
    if (asked == Asked::kRead) {
      if (how % 4 == 0) {
        return Feed(DirectoryUnreadable{"no"});
      }
      if (how % 4 == 1) {
        return Feed(ClaimsContested{});
      }
      const bool some = how % 4 == 2;
      Feed(DirectoryRead{began_, some ? std::optional(SomeClaim(input, near)) : std::nullopt});
    } else if (asked == Asked::kClaim) {
      if (how % 2 == 0) {
        return Feed(NotClaimed{how % 4 == 0, "no"});
      }
      Claim claim{wanted_, {std::max(above_.value, above_.value + 1)}, {"n0", 1}, 0};
      Feed(Claimed{began_, claim});
      CHECK(state_.phase == SuccessionPhase::kServing);
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

  void Feed(const SuccessionEvent& event) {
    for (const SuccessionEffect& effect : Step(state_, config_, event, now_)) {
      std::visit(Overload{
                     [&](const ReadDirectory&) { Asks(Asked::kRead); },
                     [&](const TakeClaim& take) {
                       CHECK(config_.may_serve);
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
                       asked_ = Asked::kNothing;  // A move that is under way moves nobody.
                     },
                     [&](const Notice& notice) { CHECK(!notice.text.empty()); },
                 },
                 effect);
    }
    CHECK(served_.has_value() == (state_.phase == SuccessionPhase::kServing) ||
          std::holds_alternative<Claimed>(event));
    const std::optional<Time> wake = NextWake(state_, config_);
    if (std::holds_alternative<SuccessionTick>(event)) {
      CHECK(!wake || *wake > now_);
    }
  }

  SuccessionState state_;
  SuccessionConfig config_;
  Time now_{std::chrono::hours(1'000)};
  Asked asked_ = Asked::kNothing;
  Time began_;
  std::uint64_t wanted_ = 0;
  Term above_;
  Claim moved_;
  std::optional<Claim> served_;
};

// ---- One witness ----
bool SameMaker(const Claim& a, const Claim& b) {
  return a.number == b.number && a.term == b.term && a.endpoint == b.endpoint;
}

WitnessRequest SomeRequest(FuzzInput& input, std::uint64_t near) {
  WitnessRequest request;
  request.verb = OneOf(input, std::array{WitnessVerb::kLook, WitnessVerb::kBack, WitnessVerb::kMove,
                                         WitnessVerb::kRelease});
  request.claim = SomeClaim(input, near);
  request.everybody_new = input.Byte() % 4 == 0;
  request.lease = SomeTime(input);
  return request;
}

void PlayWitness(FuzzInput input) {
  Time now{std::chrono::hours(1'000)};
  Witness witness(now, Duration{input.Byte() % 2 == 0 ? 0 : 6'000});
  std::optional<Claim> known;
  std::uint64_t near = 1;
  for (int i = 0; i < kMostEvents && !input.Rest().empty(); ++i) {
    now += SomeTime(input) % Duration{100'000};
    const WitnessRequest request = SomeRequest(input, near);
    const WitnessAnswer answer = witness.Answer(request, now);
    if (request.verb == WitnessVerb::kBack && answer.accepted) {
      CHECK(answer.newest && SameMaker(*answer.newest, request.claim));
      const bool stray = known && known->counter == 0 && request.claim.number == known->number;
      CHECK(!known || SameMaker(*known, request.claim) || stray ||
            request.claim.number > known->number);
    }
    if (request.verb == WitnessVerb::kLook ||
        (request.verb != WitnessVerb::kRelease && !answer.accepted)) {
      CHECK(answer.newest == known);
    }
    if (known && answer.newest && SameMaker(*known, *answer.newest)) {
      CHECK(answer.newest->counter >= known->counter);
      CHECK(answer.newest->closed || !known->closed);
    }
    known = answer.newest;
    near = known ? known->number : 1;
  }
}

// ---- One round ----
void PlayRound(FuzzInput input) {
  const std::size_t listed =
      kLeastWitnesses + input.Byte() % (kMostWitnesses - kLeastWitnesses + 1);
  const WitnessRequest request = SomeRequest(input, 1);
  Ballot ballot(listed, request);
  std::optional<bool> made, moved;
  for (std::size_t i = 0; i < listed; ++i) {
    const std::uint8_t what = input.Byte();
    WitnessAnswer answer{(what & 1) != 0, (what & 2) != 0, std::nullopt};
    if ((what & 4) != 0) {
      answer.newest = SomeClaim(input, request.claim.number);
    }
    ballot.Add(i, answer);
    CHECK(ballot.Newest() || !ballot.Newest().error().message.empty());
    CHECK(ballot.Strays().size() <= i + 1);
    if (!ballot.Decided()) {
      CHECK(!made && !moved);
    } else if (request.verb == WitnessVerb::kBack) {
      CHECK(made.value_or(ballot.Made().has_value()) == ballot.Made().has_value());
      made = ballot.Made().has_value();
    } else if (request.verb == WitnessVerb::kMove) {
      const bool kept = ballot.Moved() && !*ballot.Moved();
      CHECK(moved.value_or(kept) == kept);
      moved = kept;
    }
  }
  CHECK(ballot.Decided());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  FuzzInput input(data, size);
  const std::size_t before = AllocatedBytes();
  const std::uint8_t what = input.Byte() % 4;
  if (what == 0) {
    PlayWitness(input);
  } else if (what == 1) {
    PlayRound(input);
  } else {
    Node node(input);
    for (int i = 0; i < kMostEvents && !input.Rest().empty(); ++i) {
      node.Happens(input);
    }
  }
  CHECK(AllocatedBytes() <= before + (1 << 20));  // Nothing stays.
  return 0;
}
