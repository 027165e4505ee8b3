#include "launcher/check/exchange.h"

#include <gtest/gtest.h>

#include <future>

#include "launcher/check/check_report.h"
#include "rendezvous/door/listen_socket.h"

namespace ddprun {
namespace {

TEST(CheckExchange, APairIsMeasuredInBothDirections) {
  const Result<ListenSocket> listener = ListenOn({"127.0.0.1", 0});
  ASSERT_TRUE(listener);
  auto serves = std::async(std::launch::async, [&] { return ServePair(listener->fd.get()); });
  const Result<Exchanged> calls = CallPair(listener->endpoint);
  const Result<Exchanged> served = serves.get();
  ASSERT_TRUE(calls && served);
  EXPECT_GT(calls->received, 0);
  EXPECT_GT(calls->latency, 0);
  EXPECT_GT(served->received, 0);
}

TEST(CheckExchange, WhereNobodyListensIsAnError) {
  EXPECT_FALSE(CallPair({"127.0.0.1", 1}));
}

TEST(CheckReport, ANodesFactsTravel) {
  CheckedNode node{.name = {}, .host = "n0", .facts = {{"gpu0", "Xid 74", true}}, .refuses = "why"};
  node.asked = true;
  node.node_check = "exit code 1";
  const Result<CheckedNode> back = NodeFromJson(InJson(node));
  ASSERT_TRUE(back);
  EXPECT_EQ(std::tie(back->host, back->facts, back->refuses, back->asked, back->node_check),
            std::tie(node.host, node.facts, node.refuses, node.asked, node.node_check));
}

TEST(CheckReport, OtherKindsOfValuesAreRefused) {
  const std::string good =
      InJson(CheckedNode{.name = {}, .host = "n0", .facts = {}, .refuses = {}});
  ASSERT_TRUE(NodeFromJson(good));
  for (const std::string text : {"", "[]", "7", "{}", R"({"host": 7})"}) {
    EXPECT_FALSE(NodeFromJson(text)) << text;
  }
  const std::string facts = R"({"host":"a","refused":"","node_check":null,"facts":)";
  EXPECT_TRUE(NodeFromJson(facts + "[]}"));
  for (const std::string text : {"[5]", R"([{"name":"a","value":1,"bad":true}])", R"(["text"])"}) {
    EXPECT_FALSE(NodeFromJson(facts + text + "}")) << text;
  }
}

}  // namespace
}  // namespace ddprun
