#include "rendezvous/store/store_table.h"

#include <gtest/gtest.h>

#include "common/overload.h"

namespace ddprun {
namespace {

constexpr std::size_t kPlenty = 1 << 20;

// Answers in words: "1:0" is client 1's byte or number, "1:[a|b]" values, "1:2[x]" a pop.
std::string Words(const std::vector<StoreAnswer>& answers) {
  std::string words;
  const auto text = [](const StoreValue& value) { return value ? *value : std::string(); };
  for (const auto& [client, reply] : answers) {
    words += (words.empty() ? "" : " ") + std::to_string(client.value) + ":";
    words += std::visit(Overload{[](const ByteReply& r) { return std::to_string(r.byte); },
                                 [](const NumberReply& r) { return std::to_string(r.number); },
                                 [](const NonceReply& r) { return std::to_string(r.nonce); },
                                 [&](const ValuesReply& r) {
                                   std::string all;
                                   for (const StoreValue& value : r.values) {
                                     all += (&value == r.values.data() ? "" : "|") + text(value);
                                   }
                                   return "[" + all + "]";
                                 },
                                 [](const KeysReply& r) {
                                   std::string all;
                                   for (const StoreValue& key : r.keys) {
                                     all += "/" + *key;
                                   }
                                   return "{" + all + "}";
                                 },
                                 [&](const PopReply& r) {
                                   return std::to_string(r.length) + "[" + text(r.value) + "]";
                                 }},
                        reply);
  }
  return words;
}

class StoreTableTest : public testing::Test {
 protected:
  std::string Do(std::uint64_t client, StoreRequest request) {
    std::vector<StoreAnswer> answers;
    const auto done = table_.Apply({client}, std::move(request), answers);
    return done ? Words(answers) : "refused: " + done.error().message;
  }
  std::string Gone(std::uint64_t client) {
    std::vector<StoreAnswer> answers;
    table_.Forget({client}, answers);
    return Words(answers);
  }
  std::string Set(std::string key, std::string value) {
    return Do(9, {StoreOp::kSet, {std::move(key)}, {std::move(value)}});
  }
  std::string Get(std::string key) { return Do(9, {StoreOp::kGet, {std::move(key)}}); }
  std::string Push(std::string key, std::string value) {
    return Do(9, {StoreOp::kQueuePush, {std::move(key)}, {std::move(value)}});
  }

  StoreTable table_{kPlenty};
};

TEST_F(StoreTableTest, AppendGrowsAndDoesNotChangeRepliesUnderWay) {
  EXPECT_EQ(Do(1, {StoreOp::kAppend, {"a"}, {"x"}}), "");
  std::vector<StoreAnswer> under_way;
  ASSERT_TRUE(table_.Apply({1}, {StoreOp::kGet, {"a"}}, under_way));
  EXPECT_EQ(Do(1, {StoreOp::kAppend, {"a"}, {"y"}}), "");
  EXPECT_EQ(Words(under_way), "1:[x]");
  under_way.clear();
  EXPECT_EQ(Do(1, {StoreOp::kAppend, {"a"}, {"z"}}), "");
  EXPECT_EQ(Get("a"), "9:[xyz]");
}

// A waiter is woken once, when the last of its keys exists, whichever request made it.
TEST_F(StoreTableTest, EveryWriteWakesWaiters) {
  const std::vector<StoreRequest> writes{
      {StoreOp::kSet, {"k"}, {"v"}},      {StoreOp::kAdd, {"k"}, {}, 1},
      {StoreOp::kAppend, {"k"}, {"v"}},   {StoreOp::kCompareSet, {"k"}, {"", "v"}},
      {StoreOp::kMultiSet, {"k"}, {"v"}}, {StoreOp::kQueuePush, {"k"}, {"v"}},
      {StoreOp::kBarrier, {"k"}, {}, 1}};
  for (const StoreRequest& write : writes) {
    table_ = StoreTable(kPlenty);
    EXPECT_EQ(Do(2, {StoreOp::kWait, {"k", "other"}}), "");
    EXPECT_EQ(Set("other", ""), "");
    EXPECT_EQ(Do(1, write).substr(0, 3), "2:0") << static_cast<int>(write.op);
    EXPECT_EQ(table_.waiters(), 0u);
    EXPECT_EQ(Do(1, {StoreOp::kWait, {"k", "other"}}), "1:0");
  }
}

// A key that was set counts, even if it is deleted before the others are set; and only once.
TEST_F(StoreTableTest, AWaitNeedsEachKeyOnce) {
  EXPECT_EQ(Do(2, {StoreOp::kWait, {"a", "b", "a"}}), "");
  EXPECT_EQ(Set("a", ""), "");
  EXPECT_EQ(Set("a", ""), "");
  Do(1, {StoreOp::kDeleteKey, {"a"}});
  EXPECT_EQ(Set("b", ""), "2:0");
}

TEST_F(StoreTableTest, ACompareSetThatStoresNothingWakesNoClient) {
  EXPECT_EQ(Do(2, {StoreOp::kWait, {"k"}}), "");
  EXPECT_EQ(Do(1, {StoreOp::kCompareSet, {"k"}, {"x", "y"}}), "1:[x]");
  EXPECT_EQ(table_.waiters(), 1u);
}

// The second one would find the queue empty and fail.
TEST_F(StoreTableTest, APushWakesOneWaiterInOrder) {
  Do(2, {StoreOp::kWait, {"q"}});
  Do(1, {StoreOp::kWait, {"q"}});
  EXPECT_EQ(Push("q", "a"), "2:0");
  EXPECT_EQ(Push("q", "b"), "1:0");
  EXPECT_EQ(Push("q", "c"), "");
}

// A client that dies between being woken and popping must not leave the others waiting.
TEST_F(StoreTableTest, AnOfferedValueIsPassedOn) {
  Do(1, {StoreOp::kWait, {"q"}});
  Do(2, {StoreOp::kWait, {"q"}});
  EXPECT_EQ(Push("q", "a"), "1:0");
  EXPECT_EQ(Gone(1), "2:0");
  EXPECT_EQ(Do(2, {StoreOp::kQueuePop, {"q"}}), "2:1[a]");
  Do(3, {StoreOp::kWait, {"q"}});
  EXPECT_EQ(Gone(2), "");
}

TEST_F(StoreTableTest, ForgottenClientsWaitNoLonger) {
  Do(1, {StoreOp::kWait, {"a", "b"}});
  Do(2, {StoreOp::kWait, {"a"}});
  EXPECT_EQ(Gone(1), "");
  EXPECT_EQ(Set("a", ""), "2:0");
  EXPECT_EQ(Do(1, {StoreOp::kDeleteKey, {"a"}}), "1:1");
  EXPECT_EQ(table_.bytes(), 0u);
}

// A request that does not fit is refused as a whole; deleting makes room again.
TEST_F(StoreTableTest, BytesAreBounded) {
  const std::string half(kPlenty / 2, 'x');
  EXPECT_EQ(Set("a", half), "");
  EXPECT_EQ(Set("b", half).substr(0, 8), "refused:");
  EXPECT_EQ(Push("q", half).substr(0, 8), "refused:");
  EXPECT_EQ(Do(1, {StoreOp::kAppend, {"a"}, {half}}).substr(0, 8), "refused:");
  EXPECT_EQ(Do(1, {StoreOp::kMultiSet, {"c", "b"}, {"", half}}).substr(0, 8), "refused:");
  EXPECT_EQ(Do(1, {StoreOp::kWait, {half}}).substr(0, 8), "refused:");
  EXPECT_EQ(Do(1, {StoreOp::kGetNumKeys}), "1:1");
  EXPECT_EQ(Do(1, {StoreOp::kDeleteKey, {"a"}}), "1:1");
  EXPECT_EQ(table_.bytes(), 0u);
  EXPECT_EQ(Set("b", half), "");
}

// A value counts once, and as long as an unsent answer refers to it.
TEST_F(StoreTableTest, AValueCountsUntilNothingRefersToIt) {
  constexpr std::size_t kBytes = kPlenty / 4;
  std::vector<StoreAnswer> under_way;
  Set("a", std::string(kBytes, 'x'));
  for (int reader = 0; reader < 8; ++reader) {
    ASSERT_TRUE(table_.Apply({1}, {StoreOp::kMultiGet, {"a", "a"}}, under_way));
  }
  EXPECT_LE(table_.bytes(), kBytes + 1'000);
  Do(1, {StoreOp::kAppend, {"a"}, {"y"}});
  EXPECT_GE(table_.bytes(), 2 * kBytes);
  Do(1, {StoreOp::kDeleteKey, {"a"}});
  EXPECT_LE(table_.bytes(), kBytes + 1'000);
  ASSERT_TRUE(
      table_.Apply({1}, {StoreOp::kCompareSet, {"a"}, {std::string(kBytes, 'z'), ""}}, under_way));
  EXPECT_GE(table_.bytes(), 2 * kBytes);
  EXPECT_EQ(Set("a", std::string(3 * kBytes, 'x')).substr(0, 8), "refused:");
  under_way.clear();
  EXPECT_EQ(table_.bytes(), 0u);
}

// The answer has copies of the keys.
TEST_F(StoreTableTest, AListOfKeysNeedsRoom) {
  const std::string half(kPlenty / 2, 'x');
  EXPECT_EQ(Set(half, ""), "");
  EXPECT_EQ(Do(1, {StoreOp::kListKeys}).substr(0, 8), "refused:");
  EXPECT_EQ(Do(1, {StoreOp::kDeleteKey, {half}}), "1:1");
  EXPECT_EQ(table_.bytes(), 0u);
}

TEST_F(StoreTableTest, EmptyEntriesAreNotFree) {
  std::string answer;
  int keys = 0;
  while (answer.empty() && keys < 100'000) {
    answer = Set(std::to_string(keys++), "");
  }
  EXPECT_EQ(answer.substr(0, 8), "refused:");
}

// An empty value in a queue takes five times as much memory as a key's value.
TEST_F(StoreTableTest, QueuesAreNotFree) {
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(Push("q" + std::to_string(i), ""), "");
  }
  EXPECT_GE(table_.bytes(), 10 * 700u);
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(Do(1, {StoreOp::kQueuePop, {"q" + std::to_string(i)}}), "1:1[]");
  }
  EXPECT_EQ(table_.bytes(), 0u);
}

// The name is kept for each client until it takes the value.
TEST_F(StoreTableTest, NamesOfQueuesThatClientsWereWokenForCount) {
  const std::string names[] = {std::string(8'000, 'a'), std::string(8'000, 'b')};
  for (const std::string& name : names) {
    Do(1, {StoreOp::kWait, {name}});
    Push(name, "");
    EXPECT_EQ(Do(2, {StoreOp::kQueuePop, {name}}), "2:1[]");
    EXPECT_GE(table_.bytes(), 8'000u);
    EXPECT_LE(table_.bytes(), 9'000u);
  }
  Gone(1);
  EXPECT_EQ(table_.bytes(), 0u);
}

}  // namespace
}  // namespace ddprun
