#include "launcher/check/check_leader.h"

#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "rendezvous/door/listen_socket.h"

namespace ddprun {
namespace {

using std::chrono_literals::operator""s;

const std::string kNumber(32, '7');

// A leader on a thread, and whoever comes to its port.
struct CheckLeader : testing::Test {
  std::uint16_t port = 0;
  UniqueFd listener;
  std::future<Result<Checked>> led;

  void Lead(CheckLead lead) {
    Result<ListenSocket> bound = ListenOn({"127.0.0.1", 0});
    ASSERT_TRUE(bound);
    listener = std::move(bound->fd);
    port = bound->endpoint.port;
    lead.number = kNumber;
    led = std::async(std::launch::async,
                     [this, lead = std::move(lead)] { return LeadCheck(listener.get(), lead); });
  }
  UniqueFd Comes(const std::string& number, const nlohmann::json& tells) {
    Result<UniqueFd> socket = ConnectTo({"127.0.0.1", port}, CheckClock::now() + 5s);
    EXPECT_TRUE(socket);
    (void)SendBytes(socket->get(), number, CheckClock::now() + 5s);
    (void)SendJson(socket->get(), tells, CheckClock::now() + 5s);
    return std::move(*socket);
  }
  static nlohmann::json Facts(std::size_t rank) {
    nlohmann::json facts = ToJson({.name = {},
                                   .host = "h" + std::to_string(rank),
                                   .facts = {{"disk", "full", true}},
                                   .refuses = {},
                                   .node_check = {}});
    facts["rank"] = rank;
    facts["address"] = "127.0.0.1";
    facts["port"] = 1;
    return facts;
  }
};

TEST_F(CheckLeader, StrangersAreNoNodesAndEndNoPatience) {
  Lead({.nodes = 1, .number = {}, .pairs = false});
  const UniqueFd garbage = Comes("GET / HTTP/1.1\r\nHost: somebody else\r\n\r\n", {});
  const UniqueFd other_check = Comes(std::string(32, '8'), Facts(0));
  const UniqueFd silent = std::move(*ConnectTo({"127.0.0.1", port}, CheckClock::now() + 5s));
  const UniqueFd no_rank = Comes(kNumber, {{"rank", "0"}});
  const UniqueFd beyond = Comes(kNumber, Facts(1));
  const UniqueFd node = Comes(kNumber, Facts(0));
  const Result<Checked> checked = led.get();
  ASSERT_TRUE(checked) << checked.error().message;
  ASSERT_EQ(checked->nodes.size(), 1u);
  EXPECT_EQ(checked->nodes[0].name, "h0");
  EXPECT_TRUE(checked->Bad());
}

TEST_F(CheckLeader, OtherKindsOfValuesAreNone) {
  Lead({.nodes = 1, .number = {}, .pairs = false});
  nlohmann::json facts = Facts(0);
  facts["host"] = 7;
  facts["port"] = 70'000;
  facts["asked"] = "yes";
  facts["facts"] = {{{"name", nullptr}, {"bad", 1}}, "text", 5};
  const UniqueFd node = Comes(kNumber, facts);
  const Result<Checked> checked = led.get();
  ASSERT_TRUE(checked) << checked.error().message;
  EXPECT_FALSE(checked->Bad());
  EXPECT_EQ(checked->nodes[0].facts.size(), 1u);
}

TEST_F(CheckLeader, WhoStandsStillIsNamedAndTheOthersGoOn) {
  Lead({.nodes = 2, .number = {}, .round = 1s});
  const UniqueFd first = Comes(kNumber, Facts(0));
  const UniqueFd second = Comes(kNumber, Facts(1));
  const CheckTime end = CheckClock::now() + 20s;
  std::string told;  // Node 0 has an answer to all that it is asked, node 1 to nothing.
  while (told != "end") {
    const Result<CheckMessage> wish = ReceiveJson(first.get(), end);
    ASSERT_TRUE(wish) << wish.error().message;
    told = ValueOr(wish->json, "do", std::string());
    ASSERT_TRUE(SendJson(first.get(), {{"received", 1e6}, {"latency", 1e-3}}, end));
  }
  const Result<Checked> checked = led.get();
  ASSERT_TRUE(checked) << checked.error().message;
  ASSERT_EQ(checked->nodes.size(), 2u);
  ASSERT_EQ(checked->pairs.size(), 1u);
  EXPECT_EQ(checked->pairs[0].error, "node 1 does not answer");
}

}  // namespace
}  // namespace ddprun
