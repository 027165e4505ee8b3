#include "rendezvous/store/store_server.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <boost/asio/read.hpp>

#include "rendezvous/store/store_server_testing.h"

namespace ddprun {
namespace {

TEST(StoreServer, DescriptorsDoNotReachWorkers) {
  Served served;
  Client client(served);
  client.Settle();
  int open = 0;
  for (int fd = 3; fd < 64; ++fd) {
    int listening = 0;
    socklen_t size = sizeof(listening);
    sockaddr_in local{};
    socklen_t local_size = sizeof(local);
    if (::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &size) == 0 &&
        ::getsockname(fd, reinterpret_cast<sockaddr*>(&local), &local_size) == 0 &&
        ntohs(local.sin_port) == served.port()) {
      ++open;
      EXPECT_NE(::fcntl(fd, F_GETFD) & FD_CLOEXEC, 0);
    }
  }
  EXPECT_EQ(open, 2);  // The listener and the accepted connection.
}

// A worker that dies in a wait leaves nothing behind.
TEST(StoreServer, AWaiterThatGoesAwayIsForgotten) {
  Served served;
  {
    Client waiter(served);
    waiter.Send(wire::Wait({"/k"}));
    waiter.Settle();
  }
  served.UntilConnections(0);
  EXPECT_EQ(served.On([](StoreServer& server) { return server.bytes(); }), 0u);
}

TEST(StoreServer, AnErrorEndsOnlyThatConnection) {
  Served served;
  Client good(served);
  good.Send(wire::Set("/text", "abc") + wire::Wait({"/never"}));
  good.Settle();
  const std::vector<std::string> wrong{wire::Validate(), wire::Op(19), wire::Add("/text", 1),
                                       wire::Barrier("/text", 2),
                                       wire::Op(3) + wire::Raw(std::uint64_t{8193})};
  for (const std::string& bytes : wrong) {
    Client bad(served);
    bad.Send(bytes);
    EXPECT_TRUE(bad.Closed()) << static_cast<int>(bytes[0]);
  }
  for (const std::string& bytes : {std::string("\0\1\2\3\4", 5), wire::Set("/a", "b"),
                                   std::string("GET / HTTP/1.1\r\n\r\n")}) {
    Client bad(served, false);
    bad.Send(bytes);
    EXPECT_TRUE(bad.Closed());
  }
  served.UntilConnections(1);
  good.Settle();
}

TEST(StoreServer, SilentConnectionsEnd) {
  Served served({.validate_timeout = 1s});
  Client silent(served, false);
  Client half(served, false);
  half.Send(wire::Validate().substr(0, 4));
  Client good(served);
  EXPECT_TRUE(silent.Closed());
  EXPECT_TRUE(half.Closed());
  good.Settle();
}

// The one who asks for more than it takes pays, and is not read from meanwhile.
TEST(StoreServer, ASlowReaderHoldsUpOnlyItself) {
  Served served;
  Client slow(served);
  Client other(served);
  const std::string value(8 << 20, 'x');
  slow.Send(wire::Set("/big", value));
  slow.Settle();
  for (int i = 0; i < 3; ++i) {
    slow.Send(wire::Get("/big"));
  }
  slow.Send(wire::Set("/after", ""));
  for (int i = 0; i < 100; ++i) {
    other.Settle();
  }
  EXPECT_EQ(other.Ask(wire::Check({"/after"}), 1), wire::Op(1));
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(slow.Read(8 + value.size()) == wire::Text(value));
  }
  slow.Settle();
  EXPECT_EQ(other.Ask(wire::Check({"/after"}), 1), wire::Op(0));
}

// A wait that is answered while another reply is stuck comes after it, and reading continues.
TEST(StoreServer, AWakeDuringAStuckReplyIsNotLost) {
  Served served;
  Client slow(served);
  Client other(served);
  const std::string value(8 << 20, 'x');
  slow.Send(wire::Set("/big", value));
  slow.Settle();
  slow.Send(wire::Wait({"/k"}) + wire::Get("/big") + wire::Get("/big"));
  EXPECT_TRUE(slow.Read(8 + value.size()) == wire::Text(value));
  other.Send(wire::Set("/k", ""));
  other.Settle();
  EXPECT_TRUE(slow.Read(8 + value.size()) == wire::Text(value));
  EXPECT_EQ(slow.Read(1), wire::Op(0));
  slow.Settle();
}

// The shared port hands over a connection of which it has read nothing.
TEST(StoreServer, AdoptsAConnection) {
  Served served;
  boost::asio::io_context io;
  tcp::acceptor acceptor(io, {boost::asio::ip::address_v4::loopback(), 0});
  tcp::socket client(io);
  client.connect(acceptor.local_endpoint());
  client.send(boost::asio::buffer(wire::Validate()));
  const int accepted = acceptor.accept().release();
  served.On([&](StoreServer& server) { server.Adopt(accepted); });
  client.send(boost::asio::buffer(wire::Ping(7)));
  std::string reply(4, 0);
  boost::asio::read(client, boost::asio::buffer(reply));
  EXPECT_EQ(reply, wire::Raw(std::uint32_t{7}));
}

}  // namespace
}  // namespace ddprun
