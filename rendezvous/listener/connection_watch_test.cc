#include "rendezvous/listener/connection_watch.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "common/files.h"
#include "rendezvous/client.h"
#include "rendezvous/testing/loopback.h"
#include "rendezvous/testing/pump.h"
#include "rendezvous/testing/wire_fixture.h"

namespace ddprun {
namespace {

// Both ends of a connection over loopback.
struct Pair {
  UniqueFd here;
  UniqueFd there;
  std::string name;  // Of the other end.
};

Pair Connect() {
  const UniqueFd listener = ListenOnLoopback();
  Pair pair;
  pair.there = ConnectToLoopback(PortOf(listener));
  pair.here = UniqueFd(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  pair.name = "127.0.0.1:" + std::to_string(PortOf(pair.there));
  return pair;
}

using namespace std::chrono_literals;

constexpr std::size_t kMost = 200;  // That are not let in.

class Watching : public testing::Test {
 protected:
  bool Until(std::size_t count) {
    return PumpUntil(loop_, [&] { return closed_.size() >= count; });
  }

  AsioLoop loop_;
  std::vector<std::string> closed_;
  void Sends(const Pair& pair, std::size_t bytes) {
    const std::string much(bytes, 'x');
    ASSERT_EQ(::send(pair.there.get(), much.data(), much.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(much.size()));
  }
  // Reads exactly so many bytes; blocks until they have come.
  void ReadAll(const Pair& pair, std::size_t bytes) {
    std::string much(bytes, ' ');
    ASSERT_EQ(::recv(pair.here.get(), much.data(), much.size(), MSG_WAITALL),
              static_cast<ssize_t>(bytes));
  }

  std::vector<std::string> ended_;
  ConnectionWatch watch_{
      loop_, [this](const std::string& peer) { closed_.push_back(peer); },
      [this](const std::string& peer, const std::string&) { ended_.push_back(peer); }, kMost, 1min};
};

TEST_F(Watching, TheOtherEndCloses) {
  Pair one = Connect();
  Pair two = Connect();
  EXPECT_EQ(watch_.Watch(one.here.get()), one.name);
  EXPECT_EQ(watch_.Watch(two.here.get()), two.name);
  ASSERT_EQ(::send(one.there.get(), "bytes", 5, MSG_NOSIGNAL), 5);  // These have no reader.
  two.there.Reset();
  ASSERT_TRUE(Until(1));
  EXPECT_EQ(closed_, (std::vector<std::string>{two.name}));
  one.there.Reset();
  ASSERT_TRUE(Until(2));
  EXPECT_EQ(closed_[1], one.name);
}

TEST_F(Watching, TheReaderShutsItDownAndNothingOfItStays) {
  Pair pair = Connect();
  EXPECT_EQ(watch_.Watch(pair.here.get()), pair.name);
  ASSERT_EQ(::shutdown(pair.here.get(), SHUT_RDWR), 0);
  pair.here.Reset();
  char byte = 0;
  EXPECT_EQ(::recv(pair.there.get(), &byte, 1, 0), 0);  // The other end hears of it.
  pair.there.Reset();
  ASSERT_TRUE(Until(1));
}

TEST_F(Watching, ItIsEndedForBothSidesOnceItsTimeIsOver) {
  std::vector<std::string> whys;
  ConnectionWatch impatient(
      loop_, [this](const std::string& peer) { closed_.push_back(peer); },
      [&](const std::string&, const std::string& why) { whys.push_back(why); }, kMost, 50ms);
  Pair pair = Connect();
  Pair accepted = Connect();
  EXPECT_EQ(impatient.Watch(pair.here.get()), pair.name);
  EXPECT_EQ(impatient.Watch(accepted.here.get()), accepted.name);
  impatient.MarkAuthenticated(accepted.name);
  ASSERT_TRUE(Until(1));
  EXPECT_EQ(closed_, (std::vector<std::string>{pair.name}));
  EXPECT_EQ(whys, (std::vector<std::string>{"it made no permitted call within 50 ms"}));
  char byte = 0;
  EXPECT_LE(::recv(pair.there.get(), &byte, 1, 0), 0);
}

TEST_F(Watching, ADescriptorThatIsNoConnectionIsPassedOver) {
  const UniqueFd alone(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(watch_.Watch(alone.get()), "");
}

// Also if they were read: a reader that is as fast as the sender leaves none in the socket.
TEST_F(Watching, TooManyBytesEndAConnectionThatIsNotLetIn) {
  Pair pair = Connect();
  ASSERT_EQ(watch_.Watch(pair.here.get()), pair.name);
  for (std::size_t sent = 0; sent < kMaxUnauthenticatedBytes; sent += 8192) {
    Sends(pair, 8192);
    ReadAll(pair, 8192);
    loop_.io().poll();
  }
  EXPECT_TRUE(ended_.empty());
  Sends(pair, 1);
  ReadAll(pair, 1);
  ASSERT_TRUE(Until(1));
  EXPECT_EQ(ended_, std::vector<std::string>{pair.name});
  char byte = 0;
  EXPECT_LE(::recv(pair.here.get(), &byte, 1, MSG_DONTWAIT), 0);
  EXPECT_NE(errno, EAGAIN);
}

TEST_F(Watching, BytesThatAreThereBeforeItIsWatchedCount) {
  Pair pair = Connect();
  Sends(pair, kMaxUnauthenticatedBytes + 1);
  ASSERT_TRUE(PumpUntil(loop_, [&] {
    std::string much(kMaxUnauthenticatedBytes + 1, ' ');
    return ::recv(pair.here.get(), much.data(), much.size(), MSG_PEEK) ==
           static_cast<ssize_t>(much.size());
  }));
  ASSERT_EQ(watch_.Watch(pair.here.get()), pair.name);
  ASSERT_TRUE(Until(1));
}

TEST_F(Watching, AnAdmittedConnectionMaySendMore) {
  Pair pair = Connect();
  ASSERT_EQ(watch_.Watch(pair.here.get()), pair.name);
  watch_.MarkAuthenticated(pair.name);
  Pair client = Connect();  // Looked at all the while.
  ASSERT_EQ(watch_.Watch(client.here.get()), client.name);
  for (int i = 0; i < 4; ++i) {
    Sends(pair, 32768);
    ReadAll(pair, 32768);
    loop_.io().poll();
  }
  Sends(client, kMaxUnauthenticatedBytes + 1);
  ASSERT_TRUE(Until(1));
  EXPECT_EQ(ended_, std::vector<std::string>{client.name});
}

TEST(ConnectionWatchEnd, SaysNothingOnceItIsDestroyed) {
  AsioLoop loop;
  Pair pair = Connect();
  {
    ConnectionWatch watch(
        loop, [](const std::string&) { FAIL() << "it is gone"; },
        [](const std::string&, const std::string&) { FAIL() << "it is gone"; }, 1, 1min);
    EXPECT_EQ(watch.Watch(pair.here.get()), pair.name);
  }
  pair.there.Reset();
  loop.io().poll();
}

// gRPC does not report the end of a connection without a call; an agent killed just then is lost
// too.
TEST_F(WireTest, AConnectionThatClosesBetweenTwoCallsIsACancelledCall) {
  for (const char* host : {"127.0.0.1", "::1"}) {
    Serve({host, 0});
    const auto other = GrpcChannelTo(loop_, endpoint_);
    {
      const auto channel = GrpcChannelTo(loop_, endpoint_);
      other->Send(Report(1), 5s, Note());
      channel->Send(Report(2), 5s, Note());
      ASSERT_TRUE(UntilParked(2));
      for (const auto& call : parked_) {
        call->Answer(Reply(1));
      }
      ASSERT_TRUE(UntilHeard(2));
      EXPECT_TRUE(cancelled_.empty());
    }
    ASSERT_TRUE(Until([&] { return !cancelled_.empty(); })) << host;
    EXPECT_EQ(cancelled_, (std::vector<CallName>{NameOf(Report(2))}));
    heard_.clear();
    parked_.clear();
    cancelled_.clear();
  }
}

// It would occupy a descriptor for nothing: a gRPC client must also call, with its token.
TEST_F(WireTest, AConnectionWithoutCallsIsClosed) {
  AcceptorOptions options;
  options.call_patience = 2s;
  server_.emplace(loop_, Handlers(), options);
  const Result<Endpoint> bound = server_->Listen({"127.0.0.1", 0});
  ASSERT_TRUE(bound) << bound.error().message;
  const auto caller = GrpcChannelTo(loop_, *bound);
  caller->Send(Report(1), 5s, Note());
  ASSERT_TRUE(UntilParked(1));

  const UniqueFd silent = ConnectToLoopback(bound->port);
  const std::string preface("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0", 33);
  ASSERT_EQ(::send(silent.get(), preface.data(), preface.size(), MSG_NOSIGNAL), 33);
  std::array<char, 4096> bytes;
  const bool closed = Until([&] {
    const ssize_t got = ::recv(silent.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    return got == 0 || (got < 0 && errno == ECONNRESET);
  });
  EXPECT_TRUE(closed);
  EXPECT_TRUE(cancelled_.empty() && heard_.empty());
  parked_[0]->Answer(Reply(2));
  EXPECT_TRUE(UntilHeard(1));
}

}  // namespace
}  // namespace ddprun
