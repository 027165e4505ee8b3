#include "proto/hostlist.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "common/result_testing.h"

namespace ddprun {
namespace {

std::string Joined(const Result<std::vector<std::string>>& hosts) {
  if (!hosts) {
    return "refused";
  }
  std::string text;
  for (const std::string& host : *hosts) {
    text += (text.empty() ? "" : " ") + host;
  }
  return text;
}

TEST(Hostlist, IsExpandedAsScontrolDoes) {
  std::ifstream file(HOSTLIST_VECTORS);
  int vectors = 0;
  for (std::string line; std::getline(file, line);) {
    const std::size_t arrow = line.find(" => ");
    if (line.starts_with('#') || arrow == std::string::npos) {
      continue;
    }
    std::string wanted = line.substr(arrow + 4);
    if (const std::size_t here = wanted.find("  here: "); here != std::string::npos) {
      wanted = wanted.substr(here + 8);
    } else if (wanted.find("rror") != std::string::npos ||
               wanted.find("Invalid") != std::string::npos) {
      wanted = "refused";
    }
    EXPECT_EQ(Joined(ExpandHostlist(line.substr(0, arrow))), wanted) << line;
    ++vectors;
  }
  EXPECT_EQ(vectors, 27);
}

TEST(Hostlist, ARefusalNamesTheItem) {
  EXPECT_TRUE(Fails(ExpandHostlist("a,n[3-1],b"), ErrorKind::kInvalid, "'n[3-1]'"));
  EXPECT_EQ(Joined(ExpandHostlist("n]1")), "refused");
  EXPECT_EQ(Joined(ExpandHostlist("n[1-2],m[")), "refused");
}

// A hostile or broken environment must not eat the memory of every node.
TEST(Hostlist, IsBounded) {
  EXPECT_EQ(Joined(ExpandHostlist("n[0-99999999999]")), "refused");
  EXPECT_EQ(Joined(ExpandHostlist("n[0-999999999999999999]")), "refused");
  EXPECT_EQ(Joined(ExpandHostlist("n[0-18446744073709551615]")), "refused");
  EXPECT_EQ(Joined(ExpandHostlist("a[0-99999]b[0-99999]c[0-99999]d[0-99999]")), "refused");
  EXPECT_EQ(Joined(ExpandHostlist("n[0-60000],m[0-60000]")), "refused");
  EXPECT_EQ(Joined(ExpandHostlist(std::string(100'000, 'x') + "[1-90000]")), "refused");
  std::string deep = "n";
  for (int i = 0; i < 64; ++i) {
    deep += "[0-1]";
  }
  EXPECT_EQ(Joined(ExpandHostlist(deep)), "refused");
  ASSERT_TRUE(ExpandHostlist("n[1-100000]"));
  EXPECT_EQ(ExpandHostlist("n[1-100000]")->back(), "n100000");
}

TEST(Counts, AreExpanded) {
  using Counts = std::vector<std::uint32_t>;
  EXPECT_EQ(*ExpandCounts("2(x3),1"), (Counts{2, 2, 2, 1}));
  EXPECT_EQ(*ExpandCounts("1"), Counts{1});
  EXPECT_EQ(*ExpandCounts("3,1(x2)"), (Counts{3, 1, 1}));
  EXPECT_EQ(*ExpandCounts(""), Counts{});
  for (const char* bad : {"2(x", "2(x3", "(x3)", "x", "1,,2", "2(x4000000000)", "1(x)"}) {
    EXPECT_FALSE(ExpandCounts(bad)) << bad;
  }
}

}  // namespace
}  // namespace ddprun
