#include "trainer/group/rank_cores.h"

#include <gtest/gtest.h>

#include <vector>

namespace ddprun {
namespace {

cpu_set_t Cores(const std::vector<int>& cores) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int core : cores) {
    CPU_SET(static_cast<std::size_t>(core), &set);
  }
  return set;
}

bool Each(const std::vector<std::vector<int>>& ranks) {
  std::vector<cpu_set_t> sets;
  for (const std::vector<int>& cores : ranks) {
    sets.push_back(Cores(cores));
  }
  return CoreForEach(sets);
}

TEST(RankCores, RanksThatShareEnoughCoresHaveOneEach) {
  EXPECT_TRUE(Each({{0, 1}, {0, 1}}));
  EXPECT_FALSE(Each({{0, 1}, {0, 1}, {0, 1}}));
}

TEST(RankCores, RanksBoundToCoresOfTheirOwnHaveOneEach) {
  EXPECT_TRUE(Each({{0}, {1}}));
  EXPECT_TRUE(Each({{3}, {900}, {1023}}));
  EXPECT_FALSE(Each({{2}, {2}}));
}

TEST(RankCores, ARankWithAChoiceMakesRoom) {
  EXPECT_TRUE(Each({{0, 1}, {0}}));
  EXPECT_FALSE(Each({{0, 1}, {1, 2}, {0}, {1}, {2}}));
  EXPECT_TRUE(Each({{0, 1}, {1, 2}, {2, 3}, {0}}));
  EXPECT_FALSE(Each({{0, 1, 2}, {0}, {0}}));  // Three cores among them, but one for two.
}

TEST(RankCores, ARankWithoutAnyCoreIsNotServed) {
  EXPECT_FALSE(Each({{0}, {}}));
}

TEST(RankCores, ManyRanksAreJudgedAtOnce) {
  std::vector<int> all;
  for (int core = 0; core < 1024; ++core) {
    all.push_back(core);
  }
  EXPECT_TRUE(Each(std::vector<std::vector<int>>(128, all)));
  all.resize(127);
  EXPECT_FALSE(Each(std::vector<std::vector<int>>(128, all)));
}

}  // namespace
}  // namespace ddprun
