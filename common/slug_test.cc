#include "common/slug.h"

#include <gtest/gtest.h>

namespace ddprun {
namespace {

TEST(Slug, MoreComesBeforeIt) {
  EXPECT_EQ(Continue("no server [node-lost]", "; trying again"),
            "no server; trying again [node-lost]");
  EXPECT_EQ(Continue("no server", "; trying again"), "no server; trying again");
  EXPECT_EQ(Continue("", "; trying again"), "; trying again");
}

TEST(Slug, IsTakenOff) {
  EXPECT_EQ(WithoutSlug("exit code 2 [exit-code-2]"), "exit code 2");
  EXPECT_EQ(WithoutSlug("of the ranks [0] and [1]"), "of the ranks [0] and");
}

TEST(Slug, OtherBracketsAreText) {
  for (const char* const text :
       {"", "]", "[node-lost]", "a [b] c", "no 'x [Y]'", "a [node lost]", "a [b", "a[b]"}) {
    EXPECT_EQ(WithoutSlug(text), text);
    EXPECT_EQ(Continue(text, "+"), std::string(text) + "+");
  }
}

}  // namespace
}  // namespace ddprun
