#include "launcher/check/check_leader.h"

#include <gtest/gtest.h>

#include <sys/socket.h>

#include <future>
#include <thread>
#include <vector>

#include "launcher/check/arrivals.h"
#include "launcher/check/exchange.h"
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

  CheckLeader() {
    Result<ListenSocket> bound = ListenOn({"127.0.0.1", 0});
    EXPECT_TRUE(bound);
    listener = std::move(bound->fd);
    port = bound->endpoint.port;
  }
  void Lead(CheckLead lead) {
    lead.number = kNumber;
    led = std::async(std::launch::async,
                     [this, lead = std::move(lead)] { return LeadCheck(listener.get(), lead); });
  }
  UniqueFd Connects() const {
    Result<UniqueFd> socket = ConnectTo({"127.0.0.1", port}, CheckClock::now() + 5s);
    EXPECT_TRUE(socket);
    return socket ? std::move(*socket) : UniqueFd();
  }
  UniqueFd Comes(const std::string& number, const nlohmann::json& tells) const {
    UniqueFd socket = Connects();
    (void)SendBytes(socket.get(), number, CheckClock::now() + 5s);
    (void)SendJson(socket.get(), tells, CheckClock::now() + 5s);
    return socket;
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
  const UniqueFd silent = Connects();
  const UniqueFd no_rank = Comes(kNumber, {{"rank", "0"}});
  const UniqueFd beyond = Comes(kNumber, Facts(1));
  const UniqueFd node = Comes(kNumber, Facts(0));
  const Result<Checked> checked = led.get();
  ASSERT_TRUE(checked) << checked.error().message;
  ASSERT_EQ(checked->nodes.size(), 1u);
  EXPECT_EQ(checked->nodes[0].name, "h0");
  EXPECT_TRUE(checked->Bad());
}

TEST_F(CheckLeader, ManyThatSaySomethingLateOrNothingKeepNobodyWaiting) {
  std::vector<UniqueFd> strangers(120);
  for (UniqueFd& stranger : strangers) {
    stranger = Connects();
  }
  ASSERT_TRUE(SendBytes(strangers.front().get(), kNumber.substr(1), CheckClock::now() + 5s));
  Lead({.nodes = 1, .number = {}, .pairs = false, .patience = 20s});
  const UniqueFd node = Comes(kNumber, Facts(0));
  const Result<Checked> checked = led.get();
  ASSERT_TRUE(checked) << checked.error().message;
  EXPECT_EQ(checked->nodes[0].name, "h0");
}

TEST_F(CheckLeader, APairMeetsAmongStrangers) {
  std::vector<UniqueFd> strangers(20);
  for (UniqueFd& stranger : strangers) {
    stranger = Connects();
  }
  const UniqueFd other = Connects();
  ASSERT_TRUE(SendBytes(other.get(), kNumber + "pgbytes", CheckClock::now() + 5s));
  ::shutdown(other.get(), SHUT_WR);
  const Result<Exchanged> served = ServePair(listener.get(), kNumber);
  ASSERT_TRUE(served) << served.error().message;
  EXPECT_GT(served->received, 0);
}

TEST_F(CheckLeader, WhoIsOneTooManyPushesOutTheOldest) {
  std::vector<UniqueFd> strangers(5);
  for (UniqueFd& stranger : strangers) {
    stranger = Connects();
  }
  const UniqueFd node = Comes(kNumber, {});
  const UniqueFd late = Connects();
  Arrivals arrivals(listener.get(), kNumber, {.patience = std::chrono::hours(1), .most = 4});
  const CheckTime end = CheckClock::now() + 20s;
  ASSERT_TRUE(arrivals.Next(end));
  std::string left;
  for (const UniqueFd& stranger : strangers) {
    char byte = 0;
    left += ::recv(stranger.get(), &byte, 1, MSG_DONTWAIT) == 0 ? "." : "!";
  }
  EXPECT_EQ(left, "..!!!");
  for (const char digit : kNumber) {  // In pieces, and the last one to come.
    ASSERT_TRUE(SendBytes(late.get(), {&digit, 1}, end));
  }
  EXPECT_TRUE(arrivals.Next(end));
}

TEST_F(CheckLeader, WhoSaysNothingInTimeIsLeft) {
  const UniqueFd silent = Connects();
  Arrivals arrivals(listener.get(), kNumber, {.patience = std::chrono::milliseconds(0)});
  const CheckTime end = CheckClock::now() + 20s;
  char byte = 0;
  while (::recv(silent.get(), &byte, 1, MSG_DONTWAIT) != 0 && CheckClock::now() < end) {
    EXPECT_FALSE(arrivals.Next(CheckClock::now() + std::chrono::milliseconds(10)));
  }
  EXPECT_LT(CheckClock::now(), end);
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
