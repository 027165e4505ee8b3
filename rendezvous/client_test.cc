#include "rendezvous/client.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <utility>

#include "common/files.h"
#include "rendezvous/wire_fixture.h"

namespace ddprun {
namespace {

using namespace std::chrono_literals;

// A server that ten thousand have called: the kernel takes connections in, nobody shakes hands yet.
class Busy : public WireTest {
 protected:
  void SetUp() override {
    listener_ = UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    socklen_t size = sizeof address;
    ASSERT_EQ(::bind(listener_.get(), any, size), 0);
    ASSERT_EQ(::listen(listener_.get(), 16), 0);
    ASSERT_EQ(::getsockname(listener_.get(), any, &size), 0);
    endpoint_ = {"127.0.0.1", ntohs(address.sin_port)};
  }
  int Connections() const {
    int count = 0;
    while (UniqueFd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC))) {
      ++count;
    }
    return count;
  }

  UniqueFd listener_;
};

// Each new one would stand in line behind all others, and cost the server a handshake with nobody.
TEST_F(Busy, ALateAnswerIsNoReasonToDialAnewBeforeTheHandshake) {
  const std::array<std::pair<const char*, const char*>, 3> kinds = {
      {{"127.0.0.1", ""}, {"127.0.0.1", "secret"}, {"localhost", ""}}};
  for (const auto& [host, token] : kinds) {
    heard_.clear();
    GrpcSyncChannel channel(loop_, {host, endpoint_.port}, Access{token, {}});
    for (std::size_t call = 1; call <= 3; ++call) {
      channel.Send(Report(call), 600ms, Note());  // A name is looked up again meanwhile.
      ASSERT_TRUE(UntilHeard(call));
      ASSERT_FALSE(heard_.back().reply);
      EXPECT_NE(heard_.back().reply.error().message.find("no answer within"), std::string::npos)
          << heard_.back().reply.error().message;
    }
    EXPECT_EQ(Connections(), 1) << host << token;
  }
}

}  // namespace
}  // namespace ddprun
