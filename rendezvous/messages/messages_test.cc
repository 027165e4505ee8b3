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
TEST(Shape, AFlagThatTakesWordsIsToldByThem) {
  using enum Differing;
  const ShapeField scale("scale_up", &RunShape::scale_up, kRefusedWhereSet, "never|restart");
  EXPECT_EQ(FlagOf(scale, RunShape{.scale_up = false}), "--scale-up=never");
  EXPECT_EQ(FlagOf(scale, RunShape{}), "--scale-up=restart");
  const ShapeField hang("on_hang", &RunShape::on_hang, kRefused, "restart|fail|observe");
  EXPECT_EQ(FlagOf(hang, RunShape{.on_hang = kHangIsTold}), "--on-hang=observe");
  EXPECT_EQ(FlagOf(hang, RunShape{.on_hang = 3}), "--on-hang=3");  // Of a later release.
  EXPECT_EQ(FlagOf(ShapeField("max_restarts", &RunShape::max_restarts), RunShape{}),
            "--max-restarts=0");
  EXPECT_EQ(FlagOf(ShapeField("fence_after", &RunShape::fence_after),
                   RunShape{.fence_after = Duration{10'000}}),
            "--fence-after=10.0 s");
}

TEST(Shape, ASwitchWithoutWordsCanOnlyBeOverruled) {
  const auto can = [](const ShapeField<bool>& row) { return CanBeTold(std::tuple{row}); };
  EXPECT_TRUE(can({"scale_up", &RunShape::scale_up}));
  for (const Differing refused : {Differing::kRefused, Differing::kRefusedWhereSet}) {
    EXPECT_FALSE(can({"scale_up", &RunShape::scale_up, refused}));
    EXPECT_FALSE(can({"scale_up", &RunShape::scale_up, refused, "never"}));
    EXPECT_TRUE(can({"scale_up", &RunShape::scale_up, refused, "never|restart"}));
  }
}

}  // namespace
}  // namespace ddprun
