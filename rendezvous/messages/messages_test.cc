#include "rendezvous/messages/messages.h"

#include <gtest/gtest.h>

namespace ddprun {
namespace {

// Else every join would wake every waiting node.
TEST(Messages, AWaitIsTheSameWhateverItsReason) {
  EXPECT_TRUE(SameDirective(Wait{{.have = 1}}, Wait{{.have = 2}}));
  EXPECT_FALSE(SameDirective(Wait{}, ddprun::Run{}));
}

TEST(Messages, OtherDirectivesDifferInEverything) {
  EXPECT_TRUE(SameDirective(ddprun::Run{{.generation = {1}}}, ddprun::Run{{.generation = {1}}}));
  EXPECT_FALSE(SameDirective(ddprun::Run{{.generation = {1}}}, ddprun::Run{{.generation = {2}}}));
  EXPECT_FALSE(
      SameDirective(Stop{{1}, {1}, StopCause::kFailure}, Stop{{1}, {1}, StopCause::kNodeLost}));
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

TEST(Messages, CollateralIsStoppedByUsOrRestartMeAfterHello) {
  EXPECT_FALSE(IsCollateral({.status = Exited{75}}));
  EXPECT_TRUE(IsCollateral({.status = Exited{75}, .said_hello = true}));
  EXPECT_FALSE(IsCollateral({.status = Exited{76}, .said_hello = true}));
  EXPECT_TRUE(IsCollateral({.status = Killed{9}, .stopped_by_us = true}));
  EXPECT_FALSE(IsCollateral({.status = Killed{9}}));
}

}  // namespace
}  // namespace ddprun
