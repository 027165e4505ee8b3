#include "rendezvous/pool/pool_driver.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <variant>

#include "rendezvous/testing/stream_testing.h"
#include "tests/support/instant_loop.h"

namespace ddprun {
namespace {

using PoolLog = StreamLog<PoolReport, PoolReply>;

class PoolDriverTest : public testing::Test {
 protected:
  std::shared_ptr<PoolLog> Come(const PoolReport& first) {
    auto log = std::make_shared<PoolLog>();
    handlers_.pool(first, std::make_unique<LoggedStream<PoolReport, PoolReply>>(log));
    return log;
  }

  InstantLoop loop_;
  PoolDriver driver_{loop_, 1'000};
  std::vector<RunId> forgotten_;
  std::vector<RunId> stopped_;
  RendezvousHandlers handlers_ =
      driver_.With({.control =
                        [this](const ControlRequest& request) {
                          stopped_.push_back(request.run_id);
                          return Result<std::string>("the run stops");
                        }},
                   [this](const RunId& run_id, const PoolDriver::IsNode& of_pool) {
                     EXPECT_TRUE(of_pool("n1") && !of_pool("n2"));
                     forgotten_.push_back(run_id);
                   });
  std::function<void()> kept_;
};

bool IsOrdered(const PoolLog& daemon, const RunId& run_id) {
  return std::ranges::any_of(daemon.sent, [&](const PoolReply& reply) {
    const auto* const order = std::get_if<PoolOrder>(&reply);
    return order != nullptr && order->run_id == run_id;
  });
}

// Or a server that ends in between would let it run, and not know it.
TEST_F(PoolDriverTest, ADetachedRunIsNeitherStartedNorAnsweredBeforeItIsKept) {
  driver_.KeepDetached(
      {}, [this](std::vector<PoolRequest>, std::function<void()> kept) { kept_ = kept; });
  const auto daemon = Come(PoolOffer{.name = "n1", .incarnation = {1}});
  loop_.GoTo(loop_.Now() + PoolCore::kRecovery);
  const auto launch = Come(PoolRequest{.run_id = "a",
                                       .incarnation = {7},
                                       .min_nodes = 1,
                                       .max_nodes = 1,
                                       .args = {"--", "a"},
                                       .detached = true});
  ASSERT_TRUE(kept_);
  EXPECT_FALSE(IsOrdered(*daemon, "a"));
  EXPECT_TRUE(launch->sent.empty());
  kept_();
  EXPECT_TRUE(IsOrdered(*daemon, "a"));
  EXPECT_EQ(launch->sent.size(), 1u);
}

// Those that wait count, and those that are over do not.
TEST_F(PoolDriverTest, AStopWithoutANameMeansTheOnlyRun) {
  const auto stop = [&](const RunId& run_id) {
    return handlers_.control({.run_id = run_id, .verb = ControlVerb::kStop});
  };
  const auto request = [&](const RunId& run_id) {
    Come(PoolRequest{.run_id = run_id, .incarnation = {7}, .args = {"--", "a"}});
  };
  Come(PoolOffer{.name = "n1", .incarnation = {1}});
  loop_.GoTo(loop_.Now() + PoolCore::kRecovery);
  EXPECT_EQ(stop("").value(), "the run stops");
  request("trains");
  EXPECT_EQ(stop("").value(), "the run stops");
  EXPECT_EQ(stopped_, (std::vector<RunId>{"", "trains"}));
  request("waits");
  EXPECT_EQ(stop("").error().message, "the pool has 2 runs. Name one (ddprun status lists them)");
  EXPECT_EQ(stop("waits").value(), "run 'waits' leaves the queue of the pool");
  EXPECT_EQ(stop("").value(), "the run stops");
  EXPECT_EQ(stopped_.back(), "trains");
}

TEST_F(PoolDriverTest, OthersNeedNotBeKept) {
  const auto daemon = Come(PoolOffer{.name = "n1", .incarnation = {1}});
  loop_.GoTo(loop_.Now() + PoolCore::kRecovery);
  Come(PoolRequest{
      .run_id = "a", .incarnation = {7}, .min_nodes = 1, .max_nodes = 1, .args = {"--", "a"}});
  EXPECT_TRUE(IsOrdered(*daemon, "a"));
  EXPECT_EQ(forgotten_, std::vector<RunId>{"a"});
}

}  // namespace
}  // namespace ddprun
