#include "agent/workers/line_merger.h"

#include <gtest/gtest.h>

namespace ddprun {
namespace {

using namespace std::chrono_literals;

constexpr Time kStart{std::chrono::seconds(100)};

struct Merging : testing::Test {
  LineMerger merger{{}};
  std::string out;
  Merging() { merger.Expect(4, 4); }
  void Say(std::uint32_t rank, std::string_view line, Duration after = 0ms) {
    merger.Add(rank, line, kStart + after, out);
  }
};

TEST_F(Merging, ALineOfAllRanksIsSaidOnceAndAtOnce) {
  for (const std::uint32_t rank : {2, 0, 3}) {
    Say(rank, "loading");
    EXPECT_EQ(out, "");
  }
  Say(1, "loading");
  EXPECT_EQ(out, "[4 ranks] loading\n");
  EXPECT_EQ(merger.due(), std::nullopt);
}

TEST_F(Merging, NoRankWaitsLongForOneThatSaysSomethingElse) {
  Say(0, "loading");
  Say(1, "loading", 10ms);
  Say(3, "loading", 20ms);
  Say(2, "cannot load", 30ms);
  EXPECT_EQ(merger.due(), kStart + LineMerger::kPatience);
  merger.TakeDue(kStart + LineMerger::kPatience - 1ms, out);
  EXPECT_EQ(out, "");
  merger.TakeDue(kStart + LineMerger::kPatience, out);
  EXPECT_EQ(out, "[ranks 0-1,3] loading\n");
  merger.TakeDue(kStart + 30ms + LineMerger::kPatience, out);
  EXPECT_EQ(out, "[ranks 0-1,3] loading\n[rank 2] cannot load\n");
}

TEST_F(Merging, ALineThatOneRankSaysTwiceIsTwoLines) {
  for (const std::uint32_t rank : {0, 1, 2, 3, 0, 1, 2, 3}) {
    Say(rank, "again");
  }
  EXPECT_EQ(out, "[4 ranks] again\n[4 ranks] again\n");
  for (const std::uint32_t rank : {0, 0, 1, 1}) {
    Say(rank, "more");
  }
  merger.TakeAll(out);
  EXPECT_TRUE(out.ends_with("[ranks 0-1] more\n[ranks 0-1] more\n")) << out;
}

// Of two nodes with two ranks each, on the second.
TEST_F(Merging, RanksOfOneNodeAmongOthersAreNamed) {
  merger.Expect(2, 4);
  Say(2, "a");
  Say(3, "a");
  EXPECT_EQ(out, "[ranks 2-3] a\n");
}

// As of hosts, whose workers' lines are each one's own.
TEST(MergingOfSomeLines, OthersWaitOnlyBehindThem) {
  LineMerger merger({.patience = 500ms,
                     .merges = [](std::string_view line) { return line.starts_with("error"); },
                     .names =
                         [](const std::set<std::uint32_t>& hosts) {
                           return std::string(hosts.size() > 2 ? "all" : "some");
                         }});
  merger.Expect(3, 3);
  std::string out;
  merger.Add(0, "step 1", kStart, out);
  merger.Add(1, "step 1", kStart, out);
  EXPECT_EQ(out, "[some] step 1\n[some] step 1\n");
  out.clear();
  merger.Add(0, "error: refused", kStart, out);
  merger.Add(0, "step 2", kStart, out);
  merger.Add(1, "step 2", kStart, out);
  EXPECT_EQ(out, "[some] step 2\n");
  out.clear();
  merger.Add(1, "error: refused", kStart, out);
  EXPECT_EQ(out, "");
  EXPECT_EQ(merger.due(), kStart + 500ms);
  merger.Add(2, "error: refused", kStart, out);
  EXPECT_EQ(out, "[all] error: refused\n[some] step 2\n");
}

TEST_F(Merging, IsBounded) {
  const std::string line(1'000, 'x');
  for (int i = 0; i < 1'000; ++i) {
    Say(0, line + std::to_string(i));
  }
  EXPECT_GT(out.size(), 700'000u);
  std::string rest;
  merger.TakeAll(rest);
  EXPECT_LE(rest.size(), LineMerger::kRoom + 20 * LineMerger::kMostLines);
  out.clear();
  for (int i = 0; i < 5'000; ++i) {
    Say(0, std::to_string(i));
  }
  EXPECT_EQ(static_cast<std::size_t>(std::count(out.begin(), out.end(), '\n')),
            5'000 - LineMerger::kMostLines);
}

}  // namespace
}  // namespace ddprun
