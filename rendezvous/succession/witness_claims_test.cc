#include "rendezvous/succession/witness_claims.h"

#include <gtest/gtest.h>

namespace ddprun {
namespace {

using std::chrono_literals::operator""s;

constexpr Duration kLease{3'000};
const Time kStart{1000s};
const Time kLater = kStart + 60s;  // Nobody has just started.

Claim ClaimOf(std::uint64_t number, std::uint64_t counter) {
  return {number, Term{100 + number}, {"n" + std::to_string(number), 29400}, counter, false};
}

// Answers at once.
struct Listed final : WitnessCalls {
  std::vector<Witness> witnesses{3, Witness(kStart)};

  void Send(std::size_t witness, const WitnessRequest& request, Duration, Done done) override {
    done(witnesses[witness].Answer(request, kLater));
  }
  std::optional<Claim> Knows(std::size_t witness) {
    return witnesses[witness].Answer({WitnessVerb::kLook, {}, false, kLease, 0}, kLater).newest;
  }
};

struct OnAList : testing::Test {
  Listed* const listed = new Listed;
  WitnessClaims claims{{{"n1", 29400}, {"n2", 29400}, {"n3", 29400}},
                       std::unique_ptr<WitnessCalls>(listed)};

  void Tell(std::size_t witness, WitnessVerb verb, const Claim& claim) {
    ASSERT_TRUE(
        listed->witnesses[witness].Answer({verb, claim, false, kLease, 0}, kLater).accepted);
  }
};

// Two of three have a holder whose counter moves. Others would follow what the third was told.
TEST_F(OnAList, AClaimThatFindsNoMajorityIsForgottenWhereItWasBacked) {
  Tell(1, WitnessVerb::kMove, ClaimOf(1, 5));
  Tell(2, WitnessVerb::kMove, ClaimOf(1, 5));
  EXPECT_FALSE(claims.Make(ClaimOf(2, 0), kLease));
  EXPECT_FALSE(listed->Knows(0));
}

// Its release was lost: the witness would be no part of any majority.
TEST_F(OnAList, AHolderHasAStrayClaimForgotten) {
  Tell(0, WitnessVerb::kBack, ClaimOf(2, 0));
  EXPECT_FALSE(claims.Move(ClaimOf(1, 5), kLease).value());
  EXPECT_FALSE(listed->Knows(0));
  ASSERT_TRUE(claims.Move(ClaimOf(1, 6), kLease));
  EXPECT_EQ(listed->Knows(0), ClaimOf(1, 6));
}

}  // namespace
}  // namespace ddprun
