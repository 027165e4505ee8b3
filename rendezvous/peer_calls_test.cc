#include "rendezvous/peer_calls.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace ddprun {
namespace {

using Calls = std::vector<CallName>;

CallName Call(const std::string& node, std::uint64_t sequence) {
  return {"run", node, {7}, sequence};
}

TEST(PlainPeer, IsTheAddressOfEachOfGrpcsSpellings) {
  EXPECT_EQ(PlainPeer("ipv4:127.0.0.1:4242"), "127.0.0.1:4242");
  EXPECT_EQ(PlainPeer("ipv6:%5B::1%5D:4242"), "[::1]:4242");
  EXPECT_EQ(PlainPeer("ipv6:[::1]:4242"), "[::1]:4242");
  EXPECT_EQ(PlainPeer("somebody"), "somebody");
}

struct PeerCallsTest : testing::Test {
  PeerCalls peers;
};

TEST_F(PeerCallsTest, AConnectionThatClosesNamesTheNewestCallOfEachCaller) {
  peers.Opened("a:1");
  peers.Opened("b:2");
  EXPECT_TRUE(peers.Called("a:1", Call("n0", 1)));
  EXPECT_TRUE(peers.Called("a:1", Call("n1", 5)));
  EXPECT_TRUE(peers.Called("b:2", Call("n2", 9)));
  EXPECT_TRUE(peers.Called("a:1", Call("n0", 2)));
  EXPECT_EQ(peers.Closed("a:1"), (Calls{Call("n0", 2), Call("n1", 5)}));
  EXPECT_TRUE(peers.Closed("a:1").empty());
  EXPECT_EQ(peers.Closed("b:2"), (Calls{Call("n2", 9)}));
}

TEST_F(PeerCallsTest, ACallThatArrivesAfterTheEndOfItsConnectionIsReportedAtOnce) {
  peers.Opened("a:1");
  EXPECT_TRUE(peers.Called("a:1", Call("n0", 1)));
  EXPECT_EQ(peers.Closed("a:1").size(), 1u);
  EXPECT_TRUE(peers.IsTold("a:1", Call("n0", 1)));
  EXPECT_FALSE(peers.IsTold("a:1", Call("n0", 2)));
  EXPECT_FALSE(peers.Called("a:1", Call("n0", 2)));
  EXPECT_TRUE(peers.IsTold("a:1", Call("n0", 2)));
}

TEST_F(PeerCallsTest, APortIsUsedAgain) {
  peers.Opened("a:1");
  EXPECT_TRUE(peers.Closed("a:1").empty());
  peers.Opened("a:1");
  EXPECT_TRUE(peers.Called("a:1", Call("n0", 3)));
  EXPECT_FALSE(peers.IsTold("a:1", Call("n0", 3)));
  EXPECT_EQ(peers.Closed("a:1"), (Calls{Call("n0", 3)}));
}

TEST_F(PeerCallsTest, AnUnknownConnectionIsNotFollowed) {
  EXPECT_TRUE(peers.Called("a:1", Call("n0", 1)));
  EXPECT_TRUE(peers.Closed("a:1").empty());
}

TEST_F(PeerCallsTest, RemembersFewCallersAndFewClosedConnections) {
  peers.Opened("a:1");
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(peers.Called("a:1", Call("n" + std::to_string(i), 1)));
  }
  EXPECT_EQ(peers.Closed("a:1").size(), 16u);
  for (int i = 0; i < 100; ++i) {
    const std::string peer = "b:" + std::to_string(i);
    peers.Opened(peer);
    peers.Closed(peer);
  }
  EXPECT_TRUE(peers.Called("a:1", Call("n0", 2)));  // Forgotten, so it has no owner.
  EXPECT_FALSE(peers.Called("b:99", Call("n0", 2)));
}

}  // namespace
}  // namespace ddprun
