#include "rendezvous/messages/messages.h"

#include <gtest/gtest.h>

#include "rendezvous/messages/describe.h"

namespace ddprun {
namespace {

// Else every join would wake every waiting node.
TEST(Messages, AWaitIsTheSameWhateverItsReason) {
  EXPECT_TRUE(SameDirective(Wait{{.have = 1}}, Wait{{.have = 2}}));
  EXPECT_FALSE(SameDirective(Wait{}, ddprun::Run{}));
}

TEST(Messages, AnEndIsTheSameInOtherWords) {
  const Finish finish{Ending::kFailed, 1, "rank 0 failed", WorkerFailure{}, true};
  EXPECT_TRUE(SameDirective(finish, WithoutWords(finish)));
  EXPECT_FALSE(SameDirective(finish, Finish{Ending::kFailed, 2, "rank 0 failed", {}, true}));
}

TEST(Messages, PlannedStopsAreThoseThatSomebodyWanted) {
  EXPECT_TRUE(IsPlanned(StopCause::kScaleUp));
  EXPECT_TRUE(IsPlanned(StopCause::kLeave));
  EXPECT_TRUE(IsPlanned(StopCause::kOperator));
  EXPECT_FALSE(IsPlanned(StopCause::kFailure));
  EXPECT_FALSE(IsPlanned(StopCause::kNodeLost));
  EXPECT_FALSE(IsPlanned(StopCause::kDeclaredLost));
  EXPECT_FALSE(IsPlanned(StopCause::kSuperseded));
}

// "--scale-up=0" would be told as what the node asked for, and is nothing that anybody can type.
TEST(Spec, AFlagThatTakesWordsIsToldByThem) {
  using enum Mismatch;
  const SpecField scale("scale_up", &RunSpec::scale_up, kRefuseWhereSet, "never|restart");
  EXPECT_EQ(FlagOf(scale, RunSpec{.scale_up = false}), "--scale-up=never");
  EXPECT_EQ(FlagOf(scale, RunSpec{}), "--scale-up=restart");
  const SpecField hang("on_hang", &RunSpec::on_hang, kRefuse, "restart|fail|observe");
  EXPECT_EQ(FlagOf(hang, RunSpec{.on_hang = kHangIsReported}), "--on-hang=observe");
  EXPECT_EQ(FlagOf(hang, RunSpec{.on_hang = 3}), "--on-hang=3");  // Of a later release.
  EXPECT_EQ(FlagOf(SpecField("max_restarts", &RunSpec::max_restarts), RunSpec{}),
            "--max-restarts=0");
  EXPECT_EQ(FlagOf(SpecField("fence_after", &RunSpec::fence_after),
                   RunSpec{.fence_after = Duration{10'000}}),
            "--fence-after=10.0 s");
}

TEST(Spec, ASwitchWithoutWordsUsesTheFirstNodes) {
  const auto can = [](const SpecField<bool>& row) { return CanBeTold(std::tuple{row}); };
  EXPECT_TRUE(can({"scale_up", &RunSpec::scale_up}));
  for (const Mismatch refused : {Mismatch::kRefuse, Mismatch::kRefuseWhereSet}) {
    EXPECT_FALSE(can({"scale_up", &RunSpec::scale_up, refused}));
    EXPECT_FALSE(can({"scale_up", &RunSpec::scale_up, refused, "never"}));
    EXPECT_TRUE(can({"scale_up", &RunSpec::scale_up, refused, "never|restart"}));
  }
}

}  // namespace
}  // namespace ddprun
