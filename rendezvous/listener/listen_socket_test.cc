#include "rendezvous/listener/listen_socket.h"

#include <gtest/gtest.h>

#include <sstream>

namespace ddprun {
namespace {

using Sockets = std::set<std::string>;

// As Linux 6.1 writes it.
constexpr const char* kTable =
    "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout "
    "inode\n"
    "   0: 00000000:A345 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1\n"
    "   1: 0100007F:9F05 0100007F:A345 01 00000000:00000000 00:00000000 00000000     0        0 2\n"
    "   2: 00000000000000000000000001000000:0050 00000000000000000000000000000000:0000 0A "
    "00000000:00000000 00:00000000 00000000     0        0 3\n";

Sockets ListenersOf(const std::string& text, std::uint16_t port) {
  std::istringstream table(text);
  return ListenersIn(table, port);
}

TEST(ListenSocket, FindsTheListener) {
  EXPECT_EQ(ListenersOf(kTable, 0xA345), Sockets{"socket:[1]"});
  EXPECT_EQ(ListenersOf(kTable, 0x0050), Sockets{"socket:[3]"});
  EXPECT_EQ(ListenersOf(kTable, 0x9F05), Sockets{}) << "a connection is no listener";
  EXPECT_EQ(ListenersOf(kTable, 1), Sockets{});
  EXPECT_EQ(ListenersOf("", 1), Sockets{});
  EXPECT_EQ(ListenersOf("\n:\n::\n:1:\n", 1), Sockets{});
}

}  // namespace
}  // namespace ddprun
