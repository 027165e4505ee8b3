#include <malloc.h>

#include <fstream>

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

// 1.2 MB of questions for one value of 16 kB had an answer of 2 GB built.
TEST(StoreServer, AnAnswerBeyondARequestsBoundIsNotBuilt) {
  Served served({.limits = {.request_bytes = 1 << 20}});
  Client good(served);
  good.Send(wire::Set("/v", std::string(16'000, 'x')));
  good.Settle();
  Client greedy(served);
  greedy.Send(wire::MultiGet(std::vector<std::string>(100, "/v")));
  EXPECT_TRUE(greedy.Closed());  // Not one byte of it.
  EXPECT_EQ(good.Ask(wire::MultiGet({"/v", "/v"}), 2 * 16'008).size(), 2 * 16'008u);
  for (int i = 0; i < 150; ++i) {
    good.Send(wire::Set("/" + std::to_string(i) + std::string(8'000, 'k'), ""));
  }
  good.Settle();
  Client lists(served);
  lists.Send(wire::ListKeys());
  EXPECT_TRUE(lists.Closed());
  good.Settle();
}

// Readers that stand still, each with an answer of its own that may be, together keep no more than
// the bound.
TEST(StoreServer, UntakenAnswersOfAllAreBounded) {
  constexpr std::size_t kBound = 64 << 20;
  Served served({.max_traffic_bytes = kBound});
  Client good(served);
  std::vector<std::unique_ptr<Client>> still;
  for (int i = 0; i < 12; ++i) {
    good.Send(wire::Set("/big", std::string(8 << 20, 'x')));
    good.Settle();
    still.push_back(std::make_unique<Client>(served));
    still.back()->Send(wire::MultiGet({"/big", "/big"}));
    still.back()->Read(1);  // It is on its way.
    EXPECT_LE(served.On([](StoreServer& server) { return server.traffic(); }), kBound);
  }
  EXPECT_GE(served.On([](StoreServer& server) { return server.turned_away(); }), 4u);
  EXPECT_EQ(good.Ask(wire::Get("/big"), 8 + (8 << 20)).size(), 8u + (8 << 20));
}

// All nodes of a world read the same program: 600 readers of 7 MB are no 4 GB.
TEST(StoreServer, AValueThatManyReadCountsOnce) {
  constexpr std::size_t kBytes = 8 << 20;
  constexpr std::size_t kReaders = 24;
  Served served({.max_traffic_bytes = kBytes + (1 << 20)});
  Client good(served);
  good.Send(wire::Set("/big", std::string(kBytes, 'x')));
  good.Settle();
  std::vector<std::unique_ptr<Client>> readers;
  for (std::size_t i = 0; i < kReaders; ++i) {
    readers.push_back(std::make_unique<Client>(served));
    readers.back()->Send(wire::MultiGet({"/big", "/big"}));
    readers.back()->Read(1);
  }
  const std::size_t kept = served.On([](StoreServer& server) { return server.traffic(); });
  EXPECT_GE(kept, kBytes);
  EXPECT_LE(kept, kBytes + (1 << 20));
  for (std::size_t i = 0; i < kReaders; ++i) {
    if (i % 2 == 0) {
      const std::size_t rest = 2 * (8 + kBytes) - 1;
      EXPECT_EQ(readers[i]->Read(rest).size(), rest);
    }
    readers[i].reset();
  }
  served.UntilConnections(1);
  EXPECT_EQ(served.On([](StoreServer& server) { return server.turned_away(); }), 0u);
  EXPECT_EQ(served.On([](StoreServer& server) { return server.traffic(); }), 0u);
}

// Answers of a byte, or eight: who does not read them is not read from.
TEST(StoreServer, SmallAnswersThatNobodyTakesAreBounded) {
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

// Of an answer that was taken but for its end only the end is kept.
TEST(StoreServer, WhatIsKeptOfAHalfTakenAnswerCounts) {
  constexpr std::size_t kValues = 4'000;
  constexpr std::size_t kBytes = kValues * (8 + 10'000);
  Served served;
  Client good(served);
  good.Send(wire::Set("/v", std::string(10'000, 'x')));
  Client slow(served);
  slow.Send(wire::MultiGet(std::vector<std::string>(kValues, "/v")));
  good.Settle();
  std::size_t taken = 0;
  while (taken < kBytes / 2) {
    taken += slow.Read(1 << 20).size();
    const std::size_t kept = served.On([](StoreServer& server) { return server.traffic(); });
    EXPECT_LE(kept, kBytes - taken + (128u << 10));
  }
  slow.Read(kBytes - taken);
  slow.Settle();
  EXPECT_EQ(served.On([](StoreServer& server) { return server.traffic(); }), 0u);
}

// Whoever keeps a store busy keeps nobody else from anything.
std::size_t ResidentBytes() {
  std::size_t whole = 0;
  std::size_t resident = 0;
  std::ifstream("/proc/self/statm") >> whole >> resident;
  return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

// Readers that stood still, each with an answer of its own, left it to the process for good, where
// something small came to lie behind it.
TEST(StoreServer, MemoryOfAnswersThatNobodyTookGoesBack) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer keeps what was freed";
#endif
  constexpr std::size_t kEach = 8 << 20;
  constexpr std::size_t kReaders = 24;
  Served served;
  Client good(served);
  good.Send(wire::Set("/v", std::string(2'000, 'x')));
  good.Ask(wire::MultiGet(std::vector<std::string>(kEach / 2'000, "/v")), kEach / 2'000 * 2'008);
  ::malloc_trim(0);  // Of other tests.
  const std::size_t before = ResidentBytes();
  {
    std::vector<std::unique_ptr<Client>> still;
    for (std::size_t i = 0; i < kReaders; ++i) {
      still.push_back(std::make_unique<Client>(served));
      still.back()->Send(wire::MultiGet(std::vector<std::string>(kEach / 2'000, "/v")));
      still.back()->Send(wire::Validate());
      while (served.On([](StoreServer& server) { return server.traffic(); }) < i * kEach / 2) {
        std::this_thread::yield();
      }
      good.Send(wire::Set("/small" + std::to_string(i), std::string(1'000, 'x')));
      good.Settle();
    }
    while (served.On([](StoreServer& server) { return server.traffic(); }) < kReaders * kEach / 2) {
      std::this_thread::yield();
    }
    EXPECT_GT(ResidentBytes() - before, kReaders * kEach / 2);
  }
  served.UntilConnections(1);
  EXPECT_LT(ResidentBytes(), before + kReaders * kEach / 8);
}

// Ten thousand answers may have been asked for when a generation ends.
TEST(StoreServer, WhatIsAskedOnceItIsOverIsNotBegun) {
  const auto over = std::make_shared<std::atomic<bool>>(false);
  Served served({.over = over});
  Client client(served);
  client.Settle();
  *over = true;
  client.Send(wire::Set("key", "value"));
  for (int turn = 0; turn < 3; ++turn) {
    EXPECT_EQ(served.Connections(), 1u);
  }
  EXPECT_EQ(served.On([](StoreServer& server) { return server.bytes(); }), 0u);
}

TEST(StoreThread, AStoreLivesApartFromItsOwner) {
  StoreThread thread;
  auto listener = ListenForStore("127.0.0.1", 0);
  ASSERT_TRUE(listener);
  std::promise<void> released;
  thread.loop().Post([held = released.get_future().share()] { held.wait(); });
  auto store = std::make_unique<HostedStore>(thread, StoreOptions{}, std::move(listener->fd));
  Client client(listener->port);  // In the backlog.
  client.Send(wire::Ping(7));
  store->Adopt(UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)));
  released.set_value();
  EXPECT_EQ(client.Read(4), wire::Raw(std::uint32_t{7}));
  store.reset();
  EXPECT_TRUE(client.Closed());
}

}  // namespace
}  // namespace ddprun
