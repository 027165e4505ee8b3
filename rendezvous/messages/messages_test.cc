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

}  // namespace
}  // namespace ddprun
