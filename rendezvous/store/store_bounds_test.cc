#include "rendezvous/store/store_server_testing.h"
#include "rendezvous/store/store_thread.h"

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

// 1.2 MB of questions for one value of 16 kB: 2 GB of answer, which refers to that value.
TEST(StoreServer, ALongAnswerTakesLittle) {
  constexpr std::size_t kValues = 131'072;
  const std::string value(16'000, 'x');
  Served served;
  Client good(served);
  good.Send(wire::Set("/v", value));
  good.Settle();
  Client greedy(served);
  greedy.Send(wire::MultiGet(std::vector<std::string>(kValues, "/v")));
  for (int i = 0; i < 1'000; ++i) {
    EXPECT_TRUE(greedy.Read(8 + value.size()) == wire::Text(value));
  }
  good.Settle();  // It is served nevertheless.
  EXPECT_LE(served.On([](StoreServer& server) { return server.traffic(); }), 16u << 20);
  EXPECT_LE(served.On([](StoreServer& server) { return server.bytes(); }), 17'000u);
}

// A value that many read is there once, and counts until the last of them has it.
TEST(StoreServer, UntakenValuesOfAllAreBounded) {
  constexpr std::size_t kValue = 8 << 20;
  constexpr std::size_t kBound = 64 << 20;
  Served served({.max_store_bytes = kBound});
  const auto bytes = [&] { return served.On([](StoreServer& server) { return server.bytes(); }); };
  Client other(served);
  std::vector<std::unique_ptr<Client>> still;
  for (std::size_t i = 1; i <= 7; ++i) {
    other.Send(wire::Set("/big", std::string(kValue, 'x')));
    other.Settle();
    for (int reader = 0; reader < 3; ++reader) {
      still.push_back(std::make_unique<Client>(served));
      still.back()->Send(wire::MultiGet({"/big", "/big"}));
      still.back()->Read(1);  // It is on its way.
    }
    EXPECT_GE(bytes(), i * kValue);
    EXPECT_LE(bytes(), i * kValue + 1'000);
  }
  Client writer(served);
  writer.Send(wire::Set("/more", std::string(kValue, 'x')));
  EXPECT_TRUE(writer.Closed());
  EXPECT_EQ(still.back()->Read(2 * (8 + kValue) - 1).size(), 2 * (8 + kValue) - 1);
  still.clear();
  served.UntilConnections(1);
  EXPECT_LE(bytes(), kValue + 1'000);
  EXPECT_EQ(other.Ask(wire::Get("/big"), 8 + kValue).size(), 8 + kValue);
}

TEST(StoreServer, TheBytesOfAConnectionAreBounded) {
  Served served({.max_connection_bytes = 1 << 20});
  Client good(served);
  good.Settle();
  Client unfinished(served);
  unfinished.Send(wire::Op(1) + wire::Text("/k") + wire::Raw(std::uint64_t{2 << 20}) +
                  std::string((2 << 20) - 1, 'x'));
  EXPECT_TRUE(unfinished.Closed());
  good.Send(wire::Set("/v", std::string(16'000, 'x')));
  Client greedy(served);
  greedy.Send(wire::MultiGet(std::vector<std::string>(100'000, "/v")));
  served.UntilConnections(1);
  good.Settle();
}

// Those that hold the most make room.
TEST(StoreServer, TheBytesOfAllConnectionsAreBounded) {
  constexpr std::size_t kBound = 16 << 20;
  Served served({.max_traffic_bytes = kBound});
  const auto unfinished = [](std::uint64_t value, std::size_t sent) {
    return wire::Op(1) + wire::Text("/k") + wire::Raw(value) + std::string(sent, 'x');
  };
  Client little(served);
  little.Send(unfinished(3 << 20, 1 << 20));
  std::vector<std::unique_ptr<Client>> most;
  for (int i = 0; i < 12; ++i) {
    most.push_back(std::make_unique<Client>(served));
    most.back()->Send(unfinished(8 << 20, 4 << 20));
    EXPECT_LE(served.On([](StoreServer& server) { return server.traffic(); }), kBound);
  }
  Client good(served);
  good.Settle();
  served.UntilConnections(5);  // These two, and three of 4 MiB that are whole.
  EXPECT_EQ(served.On([](StoreServer& server) { return server.rejected(); }), 9u);
  little.Send(std::string(2 << 20, 'x'));
  little.Settle();
}

// Answers of a byte, or eight: who does not read them is not read from.
TEST(StoreServer, SmallAnswersThatAreNotReadAreBounded) {
  Served served;
  Client good(served);
  Client still(served);
  still.Settle();
  std::string questions;
  for (int i = 0; i < 1'000; ++i) {
    questions += wire::Check({"a", "b"}) + wire::Add("n", 1) + wire::Wait({"n"}) + wire::Ping(7);
  }
  std::size_t at = 0;
  const auto more = [&] {
    const ssize_t sent = ::send(still.socket().native_handle(), questions.data() + at,
                                questions.size() - at, MSG_DONTWAIT | MSG_NOSIGNAL);
    at = (at + static_cast<std::size_t>(std::max<ssize_t>(sent, 0))) % questions.size();
    return sent > 0;
  };
  for (bool any = true; any;) {
    while (more()) {
    }
    good.Settle();
    any = more();
  }
  EXPECT_LE(served.On([](StoreServer& server) { return server.traffic(); }), 512u << 10);
  EXPECT_EQ(served.Connections(), 2u);
}

// Ten thousand answers may have been asked for when a generation ends.
TEST(StoreServer, ARequestOnceItIsOverIsNotBegun) {
  const auto over = std::make_shared<std::atomic<bool>>(false);
  Served served({.over = over});
  Client client(served);
  client.Settle();
  *over = true;
  client.Send(wire::Set("key", "value"));
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(served.Connections(), 1u);
  }
  EXPECT_EQ(served.On([](StoreServer& server) { return server.bytes(); }), 0u);
}

TEST(StoreThread, AStoreLivesApartFromItsOwner) {
  StoreThread thread;
  auto listener = ListenOn({"127.0.0.1", 0});
  ASSERT_TRUE(listener);
  std::promise<void> released;
  thread.loop().Post([held = released.get_future().share()] { held.wait(); });
  auto store = std::make_unique<HostedStore>(thread, StoreOptions{}, std::move(listener->fd));
  Client client(listener->endpoint.port);  // In the backlog.
  client.Send(wire::Ping(7));
  store->Adopt(UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)));
  released.set_value();
  EXPECT_EQ(client.Read(4), wire::Raw(std::uint32_t{7}));
  store.reset();
  EXPECT_TRUE(client.Closed());
}

}  // namespace
}  // namespace ddprun
