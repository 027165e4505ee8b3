#include "rendezvous/store/store_protocol.h"

#include <gtest/gtest.h>

#include <memory>

#include "rendezvous/store/store_request_testing.h"

namespace ddprun {
namespace {

std::string Show(const StoreRequest& request) {
  std::string text = std::to_string(static_cast<int>(request.op));
  for (const std::string& key : request.keys) {
    text += " k=" + key;
  }
  for (const std::string& value : request.values) {
    text += " v=" + value;
  }
  return text + " " + std::to_string(request.number);
}

// Every request in the pieces, then "bad: reason" if the stream cannot be read any further.
std::vector<std::string> ParseAll(StoreParser& parser, const std::vector<std::string>& pieces) {
  std::vector<std::string> seen;
  for (const std::string& piece : pieces) {
    std::string_view input = piece;
    for (;;) {
      auto request = parser.Parse(input);
      if (!request) {
        seen.push_back("bad: " + request.error().message);
        return seen;
      }
      if (!*request) {
        EXPECT_TRUE(input.empty());
        break;
      }
      seen.push_back(Show(**request));
    }
  }
  return seen;
}

std::string ParseOne(const std::string& bytes, const StoreLimits& limits = {}) {
  StoreParser parser(limits);
  const auto seen = ParseAll(parser, {wire::Validate() + bytes});
  return seen.size() == 1 ? seen.front() : std::to_string(seen.size()) + " requests";
}

const std::vector<std::pair<std::string, std::string>>& EveryOp() {
  static const std::vector<std::pair<std::string, std::string>> ops{
      {wire::Set("/key", "value"), "1 k=/key v=value 0"},
      {wire::CompareSet("/key", "", "new"), "2 k=/key v= v=new 0"},
      {wire::Get("/key"), "3 k=/key 0"},
      {wire::Add("/key", -2), "4 k=/key -2"},
      {wire::Check({"/a", "/b"}), "5 k=/a k=/b 0"},
      {wire::Wait({"/a", ""}), "6 k=/a k= 0"},
      {wire::Wait({}), "6 0"},
      {wire::GetNumKeys(), "7 0"},
      {wire::DeleteKey("/key"), "8 k=/key 0"},
      {wire::Append("/key", "more"), "9 k=/key v=more 0"},
      {wire::MultiGet({"/a", "/b"}), "10 k=/a k=/b 0"},
      {wire::MultiSet({"/a", "1", "/b", ""}), "11 k=/a k=/b v=1 v= 0"},
      {wire::CancelWait(), "12 0"},
      {wire::Ping(4'000'000'000), "13 4000000000"},
      {wire::QueuePush("/q", "v"), "14 k=/q v=v 0"},
      {wire::QueuePop("/q"), "15 k=/q 0"},
      {wire::QueueLen("/q"), "16 k=/q 0"},
      {wire::ListKeys(), "17 0"},
      {wire::Barrier("/b", 8), "18 k=/b 8"}};
  return ops;
}

TEST(StoreParser, ReadsEveryOpSplitAtEveryByte) {
  for (const auto& [bytes, words] : EveryOp()) {
    const std::string stream = wire::Validate() + bytes + wire::GetNumKeys();
    for (std::size_t cut = 0; cut <= stream.size(); ++cut) {
      StoreParser parser({});
      EXPECT_EQ(ParseAll(parser, {stream.substr(0, cut), stream.substr(cut)}),
                (std::vector<std::string>{words, "7 0"}))
          << "cut at " << cut;
      EXPECT_EQ(parser.held(), 0u);
    }
  }
}

// Judged by the announced length: nothing is kept for what will be refused.
TEST(StoreParser, LimitsOfTorchsServer) {
  const auto length = [](std::uint64_t n) { return wire::Raw(n); };
  const std::string key = wire::Text("k");
  EXPECT_EQ(ParseOne(wire::Get(std::string(8192, 'k'))).substr(0, 2), "3 ");
  EXPECT_EQ(ParseOne(wire::Op(3) + length(8193)), "bad: a key of 8193 where at most 8192 may be");
  EXPECT_EQ(ParseOne(wire::Op(3) + length(~0ull)).substr(0, 10), "bad: a key");
  EXPECT_EQ(ParseOne(wire::Set("k", std::string(8 << 20, 'v'))).substr(0, 2), "1 ");
  EXPECT_EQ(ParseOne(wire::Op(1) + key + length((8 << 20) + 1)).substr(0, 12), "bad: a value");
  EXPECT_EQ(ParseOne(wire::Op(6) + length(131073)).substr(0, 16), "bad: a number of");
  EXPECT_EQ(ParseOne(wire::Op(11) + length(~0ull)).substr(0, 16), "bad: a number of");
  EXPECT_EQ(ParseOne(wire::Wait(std::vector<std::string>(131072, ""))).substr(0, 2), "6 ");
}

TEST(StoreParser, WholeRequestIsBounded) {
  const StoreLimits small{.request_bytes = 1000};
  const std::string value(300, 'v');
  EXPECT_EQ(ParseOne(wire::MultiSet({"a", value, "b", value}), small).substr(0, 3), "11 ");
  EXPECT_EQ(ParseOne(wire::MultiSet({"a", value, "b", value, "c", value}), small).substr(0, 14),
            "bad: a request");
}

// CHECK of 128,000 keys of 2 kB kept every other client waiting for half a second, WAIT for one and
// a half.
TEST(StoreParser, KeysOfARequestAreBoundedTogether) {
  const StoreLimits small{.keys_bytes = 1000};
  const std::string key(300, 'k');
  for (const std::uint8_t op : {5, 6, 10}) {
    EXPECT_EQ(ParseOne(wire::Keys(op, {key, key, key}), small).substr(0, 6),
              (std::to_string(op) + " k=kkkk").substr(0, 6));
    EXPECT_EQ(ParseOne(wire::Keys(op, {key, key, key, key}), small),
              "bad: all keys of a request of 1200 where at most 1000 may be");
  }
  const std::string value(2000, 'v');
  EXPECT_EQ(ParseOne(wire::MultiSet({key, value, key, value, key, value}), small).substr(0, 3),
            "11 ");
  EXPECT_EQ(ParseOne(wire::MultiSet({key, "", key, "", key, "", key, ""}), small).substr(0, 8),
            "bad: all");
}

std::string Sent(StoreOutput& output, std::size_t at_most) {
  std::string sent;
  while (!output.empty()) {
    std::string scratch(at_most, 0);
    const std::string_view now = output.Next(scratch).substr(0, at_most);
    sent += now;
    output.Consume(now.size());
  }
  return sent;
}

TEST(StoreOutput, RepliesAreTorchsBytes) {
  const StoreValue small = std::make_shared<std::string>("v");
  const StoreValue large = std::make_shared<std::string>(20'000, 'x');
  std::string expected;
  StoreOutput output;
  const auto add = [&](const StoreReply& reply, const std::string& bytes) {
    output.Append(reply);
    expected += bytes;
  };
  for (const std::size_t at_most : {1ul, 7ul, 19'999ul, 1'000'000ul}) {
    expected.clear();
    add(ByteReply{1}, wire::Op(1));
    add(NumberReply{-2}, wire::Raw(std::int64_t{-2}));
    add(NonceReply{77}, wire::Raw(std::uint32_t{77}));
    add(ValuesReply{{small, nullptr, large}},
        wire::Text("v") + wire::Text("") + wire::Text(*large));
    add(KeysReply{{small, nullptr}},
        wire::Raw(std::uint64_t{2}) + wire::Text("v") + wire::Text(""));
    add(PopReply{}, wire::Raw(std::int64_t{0}));
    add(PopReply{3, large}, wire::Raw(std::int64_t{3}) + wire::Text(*large));
    add(ValuesReply{}, "");
    EXPECT_LE(output.held(), 1'000u);  // However large its values.
    EXPECT_EQ(Sent(output, at_most), expected);
    EXPECT_EQ(large.use_count(), 1);
    EXPECT_EQ(output.held(), 0u);
  }
}

}  // namespace
}  // namespace ddprun
