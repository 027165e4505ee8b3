#include "rendezvous/client.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <netdb.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/files.h"
#include "common/result_testing.h"
#include "common/slug.h"
#include "rendezvous/testing/loopback.h"
#include "rendezvous/testing/wire_fixture.h"

namespace ddprun {
namespace {

using namespace std::chrono_literals;

constexpr const char* kMoving = "moving.example";
std::atomic<const char*> moving_to = nullptr;  // kMoving's address, as text; "": unknown.
std::atomic<bool> hanging = false;             // The name server gives no answer.

// A server in as far as it says what one says first.
class Peer {
 public:
  bool Accept(int listener) {
    fd_ = UniqueFd(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
    return static_cast<bool>(fd_);
  }
  void Say(std::string_view words) {
    (void)::send(fd_.get(), words.data(), words.size(), MSG_NOSIGNAL);  // It may have gone.
  }
  void ShakeHands() {
    static constexpr std::array<char, 9> kNoSettings = {0, 0, 0, 4};
    EXPECT_EQ(::send(fd_.get(), kNoSettings.data(), kNoSettings.size(), MSG_NOSIGNAL), 9);
  }
  bool HeardCall() {
    char piece[4096];
    ssize_t size = 0;
    while ((size = ::recv(fd_.get(), piece, sizeof piece, MSG_DONTWAIT)) > 0) {
      heard_.append(piece, static_cast<std::size_t>(size));
    }
    return heard_.find("Rendezvous/Sync") != std::string::npos;
  }

 private:
  UniqueFd fd_;
  std::string heard_;
};

// A server that ten thousand have called: the kernel takes connections in, without a handshake yet.
class Busy : public WireTest {
 protected:
  void SetUp() override {
    listener_ = ListenOnLoopback(SOCK_NONBLOCK);
    endpoint_ = {"127.0.0.1", PortOf(listener_)};
  }
  // That came since the last count. They stay open: gRPC would make another in place of a lost one.
  int Connections() {
    int count = 0;
    while (UniqueFd fd{::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC)}) {
      counted_.push_back(std::move(fd));
      ++count;
    }
    return count;
  }

  UniqueFd listener_;
  std::vector<UniqueFd> counted_;
};

// Each new one would stand in line behind all others, and cost the server a handshake with a caller
// that is gone.
TEST_F(Busy, ALateAnswerIsNoReasonToDialAnewBeforeTheHandshake) {
  const std::array<std::pair<const char*, const char*>, 3> kinds = {
      {{"127.0.0.1", ""}, {"127.0.0.1", "secret"}, {"localhost", ""}}};
  for (const auto& [host, token] : kinds) {
    heard_.clear();
    const auto channel = GrpcChannelTo(loop_, {host, endpoint_.port}, Access{token, {}});
    for (std::size_t call = 1; call <= 3; ++call) {
      channel->Send(Report(call), 600ms, Note());  // A name is looked up again meanwhile.
      ASSERT_TRUE(UntilHeard(call));
      EXPECT_TRUE(Fails(heard_.back().reply, "no answer within"));
    }
    EXPECT_EQ(Connections(), 1) << host << token;
  }
}

// The handshake's end came so late that there was no time left for an answer.
TEST_F(Busy, AConnectionThatWasMadeDuringTheCallServesTheNextOne) {
  const auto channel = GrpcChannelTo(loop_, endpoint_);
  channel->Send(Report(1), 1s, Note());
  Peer server;
  ASSERT_TRUE(Until([&] { return server.Accept(listener_.get()); }));
  server.ShakeHands();
  ASSERT_TRUE(Until([&] { return server.HeardCall(); }));
  ASSERT_TRUE(UntilHeard(1));
  channel->Send(Report(2), 300ms, Note());
  ASSERT_TRUE(UntilHeard(2));
  EXPECT_EQ(Connections(), 0);
  channel->Send(Report(3), 300ms, Note());  // It may be half open.
  ASSERT_TRUE(UntilHeard(3));
  EXPECT_EQ(Connections(), 1);
}

// Something else on the port must neither crash the channel nor hang it, and is named.
TEST_F(Busy, AnotherProtocolIsAnError) {
  const std::string web =
      "is not a ddprun rendezvous: it answers with HTTP/1, as a web server does";
  const std::array<std::pair<const char*, std::string>, 3> others = {
      {{"SSH-2.0-OpenSSH_9.2\r\n", "is not a ddprun rendezvous: its answer is not HTTP/2"},
       {"HTTP/1.1 200 OK\r\n\r\nhi", web},
       {"HTTP/1.0 404 Not Found\r\n\r\n", web}}};
  for (const auto& [says, is] : others) {
    heard_.clear();
    const auto channel = GrpcChannelTo(loop_, endpoint_);
    channel->Send(Report(1), 5s, Note());
    Peer other;
    ASSERT_TRUE(Until([&] {
      if (other.Accept(listener_.get())) {
        other.Say(says);
      }
      return !heard_.empty();
    }));
    EXPECT_TRUE(Fails(heard_[0].reply, ErrorKind::kRefused, is));
  }
}

// gRPC's words before the system's were shown too: "UNAVAILABLE: ipv4:127.0.0.1:4242: ...".
TEST_F(Busy, AConnectionThatEndsAtOnceIsToldInTheSystemsWords) {
  const auto channel = GrpcChannelTo(loop_, endpoint_);
  channel->Send(Report(1), 5s, Note());
  ASSERT_TRUE(Until([&] {
    Peer().Accept(listener_.get());
    return !heard_.empty();
  }));
  const std::string reached = "cannot reach the rendezvous at " + ToString(endpoint_) + ": ";
  EXPECT_TRUE(Fails(heard_[0].reply, ErrorKind::kUnavailable, reached));
  const std::string cause = WithoutSlug(heard_[0].reply.error().message).substr(reached.size());
  EXPECT_EQ(cause.find(':'), std::string::npos) << cause;
}

class NameServer : public Busy {
 protected:
  void SetUp() override {
    Busy::SetUp();
    moving_to = "127.0.0.1";
  }
  void TearDown() override {
    Answer();
    moving_to = nullptr;
  }
  // Each lookup from now on waits for Answer.
  void Hang() { hanging = true; }
  void Answer() {
    hanging = false;
    hanging.notify_all();
  }
  // Until the name is looked up again.
  void CallUntilOld(SyncChannel& channel) {
    for (const Time end = loop_.Now() + 1100ms; loop_.Now() <= end;) {
      channel.Send(Report(++calls_), 400ms, Note());
      ASSERT_TRUE(UntilHeard(calls_));
    }
  }

  std::size_t calls_ = 0;
};

// A connection that is being made needs no address any more.
TEST_F(NameServer, ThatHangsKeepsNoCallFromTheConnectionThatThereIs) {
  const auto channel = GrpcChannelTo(loop_, {kMoving, endpoint_.port});
  CallUntilOld(*channel);
  Hang();
  channel->Send(Report(++calls_), 5s, Note());
  Peer server;
  ASSERT_TRUE(Until([&] { return server.Accept(listener_.get()); }));
  server.ShakeHands();
  EXPECT_TRUE(Until([&] { return server.HeardCall(); }));
  EXPECT_EQ(Connections(), 0);
}

TEST_F(NameServer, MovesACallThatRunsToWhereTheNameIsNow) {
  const auto channel = GrpcChannelTo(loop_, {kMoving, endpoint_.port});
  CallUntilOld(*channel);
  Serve({"127.0.0.2", endpoint_.port});
  moving_to = "127.0.0.2";
  Hang();
  channel->Send(Report(++calls_), 5s, Note());
  Answer();
  ASSERT_TRUE(UntilParked(1));
  EXPECT_EQ(reports_[0].sequence, calls_);
  parked_[0]->Answer(Reply(1));
  ASSERT_TRUE(UntilHeard(calls_));
  EXPECT_TRUE(heard_.back().reply);
}

// The connection may be all that is left to reach the server by.
TEST_F(NameServer, WithoutAnAnswerEndsNoCallThatRuns) {
  const auto channel = GrpcChannelTo(loop_, {kMoving, endpoint_.port});
  CallUntilOld(*channel);
  moving_to = "";
  channel->Send(Report(++calls_), 600ms, Note());
  ASSERT_TRUE(UntilHeard(calls_));
  EXPECT_TRUE(Fails(heard_.back().reply, "no answer within"));
  EXPECT_EQ(Connections(), 1);
}

}  // namespace
}  // namespace ddprun

// In place of the C library's: a name that moves.
extern "C" int getaddrinfo(const char* host, const char* service, const addrinfo* hints,
                           addrinfo** found) {
  static auto* const real =
      reinterpret_cast<decltype(&::getaddrinfo)>(::dlsym(RTLD_NEXT, "getaddrinfo"));
  const char* const address = ddprun::moving_to;
  const bool moves = address != nullptr && host != nullptr &&
                     std::string_view(host) == ddprun::kMoving &&
                     (hints->ai_flags & AI_NUMERICHOST) == 0;
  if (moves) {
    ddprun::hanging.wait(true);
  }
  if (moves && *address == '\0') {
    return EAI_AGAIN;
  }
  return real(moves ? address : host, service, hints, found);
}
