#include "rendezvous/failover/held_claim.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <optional>
#include <string>

#include "rendezvous/failover/claim_directory.h"
#include "tests/support/scratch_directory.h"

namespace ddprun {
namespace {

namespace fs = std::filesystem;

Claim ClaimOf(std::uint64_t number) {
  return {number, {1700 + number}, {"n0", 29400}, 0, false, false, Duration{3'000}, {}, {}};
}

HeldClaim HeldOf(std::uint64_t number) {
  return {number, {1700 + number}, {{"n0", {11}}, {77}, 0}};
}

TEST(HeldClaimText, TellsTheGuardWhatTheAgentSaid) {
  HeldClaim held = HeldOf(3);
  held.died.key.node = "a node of several words";
  EXPECT_EQ(DecodeHeldClaim(Encode(std::optional(held))), held);
  held.died.group_rank.reset();
  EXPECT_EQ(DecodeHeldClaim(Encode(std::optional(held))), held);
  EXPECT_EQ(Encode(std::optional<HeldClaim>()), "");
  for (const std::string text : {"", "x", "3 1703", "3 1703 77 0 11", "3 1703 77 0 11 ",
                                 "3 1703 77 x 11 n0", "3 1703 77 -1 11 n0"}) {
    EXPECT_FALSE(DecodeHeldClaim(text)) << text;
  }
  EXPECT_FALSE(DecodeDied("77 0 11 " + std::string(10'000, 'n')));
}

// ---- The guard's part ----
class DeadClaim : public testing::Test {
 protected:
  Claim Newest() {
    const Result<std::optional<Claim>> newest = claims_->Newest();
    return newest && *newest ? **newest : Claim{};
  }
  void Make(const Claim& claim) { ASSERT_TRUE(claims_->Make(claim)); }

  ScratchDirectory scratch_;
  const fs::path path_ = scratch_.path();
  std::optional<ClaimDirectory> claims_{path_};
};

TEST_F(DeadClaim, IsClosedAndNamesTheDeadNode) {
  Claim moved = ClaimOf(1);
  Make(moved);
  moved.counter = 7;
  ASSERT_TRUE(claims_->Move(moved));
  const Result<bool> closed = Release(*claims_, HeldOf(1));
  ASSERT_TRUE(closed && *closed);
  EXPECT_TRUE(Newest().closed);
  EXPECT_FALSE(Newest().over);
  EXPECT_EQ(Newest().counter, 8u);
  EXPECT_EQ(Newest().died, HeldOf(1).died);
}

TEST_F(DeadClaim, IsLeftAloneOnceItIsOver) {
  Claim over = ClaimOf(1);
  Make(over);
  over.counter = 7;
  over.closed = over.over = true;
  ASSERT_TRUE(claims_->Move(over));
  const Result<bool> closed = Release(*claims_, HeldOf(1));
  EXPECT_TRUE(closed && !*closed);
  EXPECT_EQ(Newest(), over);
}

TEST_F(DeadClaim, IsLeftAloneWhereAnotherOneIsNewer) {
  Claim of_that_number = ClaimOf(1);
  of_that_number.term = {9'000};
  for (const Claim& others : {of_that_number, ClaimOf(2)}) {
    Make(others);
    const Result<bool> closed = Release(*claims_, HeldOf(1));
    EXPECT_TRUE(closed && !*closed);
    EXPECT_EQ(Newest(), others);
  }
}

}  // namespace
}  // namespace ddprun
