#include "launcher/check/check_node.h"

#include <gtest/gtest.h>

#include "rendezvous/listener/hello.h"
#include "rendezvous/listener/listen_socket.h"

namespace ddprun {
namespace {

// A client that connects first and stays silent blocks no measurement.
TEST(CheckNode, ALinkIsMeasured) {
  Result<ListenSocket> listener = ListenOn({"127.0.0.1", 0});
  ASSERT_TRUE(listener);
  const Result<UniqueFd> silent = ConnectWithin(
      listener->endpoint, "", std::chrono::steady_clock::now() + std::chrono::seconds(10));
  ASSERT_TRUE(silent);
  ASSERT_TRUE(TakeLinks(std::move(listener->fd)));
  const Result<CheckedLink> link = MeasureLink(7, listener->endpoint);
  ASSERT_TRUE(link) << link.error().message;
  EXPECT_EQ(link->to, 7u);
  EXPECT_GT(link->bytes_per_second, 0);
  EXPECT_GT(link->latency_seconds, 0);
  EXPECT_EQ(link->error, "");
}

TEST(CheckNode, APortWithoutAListenerIsAnError) {
  const Result<CheckedLink> link = MeasureLink(1, {"127.0.0.1", 1});
  ASSERT_FALSE(link);
  EXPECT_EQ(link.error().message, "cannot reach 127.0.0.1:1: Connection refused");
}

}  // namespace
}  // namespace ddprun
