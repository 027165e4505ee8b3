#include "rendezvous/listener/acceptor.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <optional>
#include <string>
#include <vector>

#include "common/result_testing.h"
#include "rendezvous/listener/hello.h"
#include "rendezvous/listener/listen_socket.h"
#include "rendezvous/testing/loopback.h"
#include "rendezvous/testing/pump.h"

namespace ddprun {
namespace {

using namespace std::chrono_literals;

const std::string kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const std::string kValidate("\x00\xce\xf7\x85\x3c\x03\x01", 7);

// A peer on loopback that sends whatever the test wants.
class Peer {
 public:
  explicit Peer(std::uint16_t port, const char* from = "127.0.0.1")
      : fd_(ConnectToLoopback(port, from)) {}

  void Say(const std::string& bytes) {
    EXPECT_EQ(::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  void CloseWriting() { ::shutdown(fd_.get(), SHUT_WR); }

  // True once the other side has closed. heard() has the bytes that came before.
  bool Closed() {
    char buffer[4096];
    ssize_t count = 0;
    while ((count = ::recv(fd_.get(), buffer, sizeof buffer, MSG_DONTWAIT)) > 0) {
      heard_.append(buffer, static_cast<std::size_t>(count));
    }
    return count == 0 || errno == ECONNRESET;
  }
  const std::string& heard() const { return heard_; }

 private:
  UniqueFd fd_;
  std::string heard_;
};

class AcceptorTest : public testing::Test {
 protected:
  void Start(AcceptorOptions options, std::function<void(UniqueFd)> tls = nullptr) {
    Result<ListenSocket> listener = ListenOn({"127.0.0.1", 0});
    ASSERT_TRUE(listener) << listener.error().message;
    endpoint_ = listener->endpoint;
    acceptor_.emplace(
        loop_, options,
        AcceptorHandlers{.grpc = [this](UniqueFd fd) { grpc_.push_back(std::move(fd)); },
                         .tls = std::move(tls),
                         .store = [this](UniqueFd fd) { store_.push_back(std::move(fd)); }});
    acceptor_->Start(std::move(listener->fd));
  }

  // Returns when the acceptor has handled everything that has reached it.
  void Settle() {
    while (loop_.io().run_one_for(20ms) > 0) {
    }
  }

  std::string Ask(const std::string& request) {
    Peer peer(endpoint_.port);
    peer.Say(request);
    EXPECT_TRUE(PumpUntil(loop_, [&] { return peer.Closed(); })) << request;
    return peer.heard();
  }

  static std::string Read(const UniqueFd& fd) {
    char buffer[256];
    const ssize_t count = ::recv(fd.get(), buffer, sizeof buffer, 0);
    return {buffer, static_cast<std::size_t>(std::max<ssize_t>(count, 0))};
  }

  AsioLoop loop_;
  Endpoint endpoint_;
  std::vector<UniqueFd> grpc_;
  std::vector<UniqueFd> store_;
  std::optional<Acceptor> acceptor_;
};

TEST_F(AcceptorTest, AnswersHealthOverHttp) {
  Start({});
  const std::string body = "ddprun rendezvous " DDPRUN_VERSION "\n";
  const std::string reply = Ask("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_TRUE(reply.starts_with("HTTP/1.0 200 OK\r\n")) << reply;
  EXPECT_TRUE(reply.ends_with("\r\n\r\n" + body)) << reply;
  EXPECT_TRUE(Ask("HEAD /healthz?x=1 HTTP/1.0\r\n\r\n").ends_with("\r\n\r\n"));
  EXPECT_TRUE(Ask("GET /other HTTP/1.0\r\n\r\n").starts_with("HTTP/1.0 404 "));
  EXPECT_TRUE(Ask("POST /healthz HTTP/1.0\r\n\r\n").starts_with("HTTP/1.0 404 "));
}

TEST_F(AcceptorTest, ARequestThatNeverEndsIsCutOff) {
  Start({});
  EXPECT_TRUE(Ask("GET /" + std::string(4091, 'x')).starts_with("HTTP/1.0 431 "));
}

TEST_F(AcceptorTest, GarbageIsClosedWithoutAWord) {
  Start({});
  EXPECT_EQ(Ask("\xff\xfe\xfd"), "");
  EXPECT_TRUE(grpc_.empty() && store_.empty());
}

TEST_F(AcceptorTest, ATlsHelloIsHandedOverOrAnsweredWithAnAlert) {
  const std::string hello("\x16\x03\x01\x00\x05hello", 10);
  Start({});
  EXPECT_EQ(Ask(hello), std::string("\x15\x03\x01\x00\x02\x02\x46", 7));
  std::vector<UniqueFd> tls;
  Start({}, [&tls](UniqueFd fd) { tls.push_back(std::move(fd)); });
  Peer peer(endpoint_.port);
  peer.Say(hello);
  ASSERT_TRUE(PumpUntil(loop_, [&] { return tls.size() == 1; }));
  EXPECT_EQ(Read(tls[0]), hello);
  EXPECT_TRUE(grpc_.empty() && store_.empty());
}

TEST_F(AcceptorTest, ACallInTheClearIsRefusedInItsOwnWords) {
  const std::string call = kPreface + std::string("\0\0\1\1\4\0\0\0\1x", 10);
  Result<ListenSocket> listener = ListenOn({"127.0.0.1", 0});
  ASSERT_TRUE(listener);
  endpoint_ = listener->endpoint;
  std::vector<std::string> refused;
  acceptor_.emplace(
      loop_, AcceptorOptions{.patience = 30ms, .refusal = "because"},
      AcceptorHandlers{.refused = [&](const std::string& address) { refused.push_back(address); }});
  acceptor_->Start(std::move(listener->fd));
  EXPECT_NE(Ask(call).find("because"), std::string::npos);
  EXPECT_EQ(refused, (std::vector<std::string>{"127.0.0.1"}));
  // These cannot make it read more, or wait longer.
  for (const std::string& rest :
       {call + std::string(70'000, 'x'), kPreface,
        kPreface + std::string("\0\x3f\0\4\0\0\0\0\0", 9) + std::string(5'000, 'x')}) {
    Peer peer(endpoint_.port);
    peer.Say(rest);
    EXPECT_TRUE(PumpUntil(loop_, [&] { return peer.Closed(); }));
  }
  EXPECT_EQ(refused.size(), 2u);
}

TEST_F(AcceptorTest, SilenceIsClosedWhenPatienceIsOver) {
  Start({.patience = 30ms});
  Peer silent(endpoint_.port);
  Peer half(endpoint_.port);
  half.Say(kPreface.substr(0, 10));
  Peer endless(endpoint_.port);
  endless.Say("GET /healthz");
  EXPECT_TRUE(
      PumpUntil(loop_, [&] { return silent.Closed() && half.Closed() && endless.Closed(); }));
  EXPECT_TRUE(grpc_.empty());
}

// Peeked bytes stay in the socket: they must be neither lost nor wake the acceptor for ever.
TEST_F(AcceptorTest, APrefaceByteByByteIsHandedOverWhole) {
  Start({});
  Peer peer(endpoint_.port);
  for (const char byte : kPreface) {
    ASSERT_TRUE(grpc_.empty());
    peer.Say(std::string(1, byte));
    loop_.io().run_one_for(10ms);
  }
  ASSERT_TRUE(PumpUntil(loop_, [&] { return grpc_.size() == 1; }));
  EXPECT_EQ(Read(grpc_[0]), kPreface);
  // One byte must wake the new owner.
  int low_water = 0;
  socklen_t size = sizeof low_water;
  ::getsockopt(grpc_[0].get(), SOL_SOCKET, SO_RCVLOWAT, &low_water, &size);
  EXPECT_EQ(low_water, 1);
}

TEST_F(AcceptorTest, WaitingForTheRestDoesNotSpinAndEndsWhenThePeerCloses) {
  Start({});
  Peer peer(endpoint_.port);
  peer.Say(kPreface.substr(0, 5));
  Settle();  // Would not come back if the five bytes woke the acceptor again and again.
  EXPECT_FALSE(peer.Closed());
  peer.CloseWriting();
  EXPECT_TRUE(PumpUntil(
      loop_, [&] { return peer.Closed(); }, 5s));  // Patience is longer.
}

TEST_F(AcceptorTest, StoreClientsAreHandedOverWithEveryByte) {
  Start({});
  Peer peer(endpoint_.port);
  peer.Say(kValidate);
  ASSERT_TRUE(PumpUntil(loop_, [&] { return store_.size() == 1; }));
  EXPECT_EQ(Read(store_[0]), kValidate);
  EXPECT_TRUE(::fcntl(store_[0].get(), F_GETFD) & FD_CLOEXEC);
  EXPECT_TRUE(::fcntl(store_[0].get(), F_GETFL) & O_NONBLOCK);
  EXPECT_FALSE(peer.Closed());
}

// A flood must not close connections of other addresses.
TEST_F(AcceptorTest, TooManyUndecidedCostTheOldestOfTheAddressThatHasTooMany) {
  for (const bool of_one : {false, true}) {
    SCOPED_TRACE(of_one ? "of one address" : "of all");
    Start(of_one ? AcceptorOptions{.max_undecided = 3, .max_undecided_of_one = 2}
                 : AcceptorOptions{.max_undecided = 2});
    std::optional<Peer> other;
    if (of_one) {
      other.emplace(endpoint_.port, "127.0.0.2");
      Settle();
    }
    Peer first(endpoint_.port);
    Settle();
    Peer second(endpoint_.port);
    Peer third(endpoint_.port);
    EXPECT_TRUE(PumpUntil(
        loop_, [&] { return first.Closed(); }, 5s));
    Settle();
    EXPECT_FALSE(other && other->Closed());
    EXPECT_FALSE(second.Closed());
    EXPECT_FALSE(third.Closed());
  }
}

// Workers, logs and files need descriptors too.
TEST_F(AcceptorTest, TheLastDescriptorsAreNotForUnauthenticatedPeers) {
  Start({});
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  Peer peer(endpoint_.port);
  Peer late(endpoint_.port);
  peer.Say(kPreface);
  const int used = ::dup(0);
  ::close(used);
  const rlimit tight{static_cast<rlim_t>(used) + 2, before.rlim_max};  // A quarter is spare.
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &tight), 0);
  EXPECT_TRUE(PumpUntil(loop_, [&] { return peer.Closed() && late.Closed(); }));
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  Peer welcome(endpoint_.port);
  welcome.Say(kPreface);
  EXPECT_TRUE(PumpUntil(loop_, [&] { return grpc_.size() == 1; }));
}

TEST_F(AcceptorTest, EndsWithConnectionsUndecided) {
  Start({});
  Peer peer(endpoint_.port);
  peer.Say("P");
  Settle();
  acceptor_.reset();
  EXPECT_TRUE(PumpUntil(loop_, [&] { return peer.Closed(); }));
}

TEST(ListenOn, AHostThatIsNotThisMachineIsDistinguished) {
  for (const char* host : {"192.0.2.1", "no-such-host.invalid"}) {
    EXPECT_TRUE(Fails(ListenOn({host, 0}), ErrorKind::kNotFound, host));
  }
  EXPECT_EQ(ListenOn({"", 0}).error().kind, ErrorKind::kInvalid);
}

TEST(ListenOn, BindsNoMoreThanTheAddressNamed) {
  bool both = false;
  for (int port = 0; port < 20 && !both; ++port) {  // Another process may have one there.
    const Result<ListenSocket> one = ListenOn({"127.0.0.1", 0});
    ASSERT_TRUE(one);
    both = ListenOn({"127.0.0.2", one->endpoint.port}).has_value();
  }
  EXPECT_TRUE(both);
}

TEST(Hello, SaysWhatAnsweredInstead) {
  AsioLoop loop;
  const Result<ListenSocket> other = ListenOn({"127.0.0.1", 0});
  ASSERT_TRUE(other);
  const auto answer_with = [&](std::optional<std::string> words) {
    std::optional<Result<void>> result;
    bool done = false;
    UniqueFd accepted;
    const Duration patience = words ? Duration(30s) : Duration(200ms);
    loop.RunBlocking([&] { result = Hello(other->endpoint, patience); }, [&] { done = true; });
    EXPECT_TRUE(PumpUntil(loop, [&] {
      accepted = UniqueFd(::accept(other->fd.get(), nullptr, nullptr));
      return static_cast<bool>(accepted);
    }));
    char request[64];
    EXPECT_GT(::recv(accepted.get(), request, sizeof request, 0), 0);
    if (words) {
      ::send(accepted.get(), words->data(), words->size(), MSG_NOSIGNAL);
      accepted.Reset();
    }
    EXPECT_TRUE(PumpUntil(loop, [&] { return done; }));
    return result->error();
  };
  const Error ssh = answer_with("SSH-2.0-OpenSSH_9.2\r\nmore");
  EXPECT_EQ(ssh.kind, ErrorKind::kRefused);
  EXPECT_TRUE(ssh.message.ends_with("it answered 'SSH-2.0-OpenSSH_9.2'")) << ssh.message;
  const Error web = answer_with("HTTP/1.0 200 OK\r\n\r\nhello");
  EXPECT_EQ(web.kind, ErrorKind::kRefused);
  const Error mute = answer_with("");
  EXPECT_EQ(mute.kind, ErrorKind::kUnavailable);  // A server without descriptors does so, too.
  EXPECT_TRUE(mute.message.ends_with("without an answer")) << mute.message;
  const Error hung = answer_with(std::nullopt);
  EXPECT_EQ(hung.kind, ErrorKind::kUnavailable);
  EXPECT_TRUE(hung.message.ends_with("did not answer within 200 ms")) << hung.message;
}

TEST(Hello, SaysWhenNoServerIsThere) {
  Endpoint endpoint;
  {
    const Result<ListenSocket> gone = ListenOn({"127.0.0.1", 0});
    ASSERT_TRUE(gone);
    endpoint = gone->endpoint;
  }
  const Result<void> result = Hello(endpoint, 1s);
  EXPECT_TRUE(Fails(result, ErrorKind::kUnavailable));
  EXPECT_TRUE(result.error().message.ends_with("Connection refused")) << result.error().message;
}

}  // namespace
}  // namespace ddprun
