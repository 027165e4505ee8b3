#include "rendezvous/store/store_server_testing.h"

namespace ddprun {
namespace {

TEST(StoreServer, ConnectionsAreBounded) {
  Served served({.max_connections = 2});
  Client a(served);
  Client b(served);
  a.Settle();
  b.Settle();
  Client c(served);
  EXPECT_TRUE(c.Closed());
  a.Settle();
}

// Who floods with silence pushes out the silent, never those who work.
TEST(StoreServer, SilentConnectionsAreBounded) {
  Served served({.max_silent = 2});
  Client working(served);
  working.Settle();
  Client first(served, false);
  served.UntilConnections(2);
  Client second(served, false);
  Client third(served, false);
  EXPECT_TRUE(first.Closed());
  working.Settle();
  EXPECT_EQ(served.Connections(), 3u);
  EXPECT_EQ(served.On([](StoreServer& server) { return server.turned_away(); }), 1u);
}

}  // namespace
}  // namespace ddprun
