// Which clients are admitted, asked of the real kernel.
#include <sys/wait.h>
#include <unistd.h>

#include "rendezvous/store/store_server_testing.h"
#include "rendezvous/store/store_thread.h"
#include "rendezvous/testing/loopback.h"

namespace ddprun {
namespace {

constexpr uid_t kNobody = 65534;

// As another user: whether a PING is answered. Only system calls, since a thread may hold any lock.
bool AnswersUser(uid_t user, std::uint16_t port) {
  const std::string bytes = wire::Validate() + wire::Ping(7);
  const sockaddr_in address = AddressOf("127.0.0.1", port);
  const pid_t child = ::fork();
  if (child == 0) {
    char answer[4];
    const bool answered =
        ::setresuid(user, user, user) == 0 && ::close(0) == 0 &&
        ::socket(AF_INET, SOCK_STREAM, 0) == 0 &&
        ::connect(0, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
        ::send(0, bytes.data(), bytes.size(), MSG_NOSIGNAL) > 0 &&
        ::recv(0, answer, sizeof answer, MSG_WAITALL) == sizeof answer;
    ::_exit(answered ? 1 : 0);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  return WEXITSTATUS(status) == 1;
}

bool KernelTells(const Client& client) {
  const tcp::socket& socket = const_cast<Client&>(client).socket();
  return std::holds_alternative<LocalPeer>(
      FindSocketPeer(socket.local_endpoint(), socket.remote_endpoint()));
}

TEST(StoreClients, OfThisMachineAreLetInWhateverTheirAddress) {
  StoreOptions options;
  options.allowed = *AllowList::Parse("10.0.0.0/8");
  Served served(options);
  Client own(served);
  own.Settle();
  if (!KernelTells(own)) {
    GTEST_SKIP() << "this kernel does not tell whose a socket is";
  }
  Client other(served, true, "127.0.0.9");
  other.Settle();
}

// A user who squats on a shared machine reads and writes no other user's keys.
TEST(StoreClients, OfAnotherUserAreRejected) {
  if (::geteuid() != 0) {
    GTEST_SKIP() << "only root can be somebody else";
  }
  Served served;
  Client own(served);
  own.Settle();
  if (!KernelTells(own)) {
    GTEST_SKIP() << "this kernel does not tell whose a socket is";
  }
  EXPECT_TRUE(AnswersUser(0, served.port()));
  EXPECT_FALSE(AnswersUser(kNobody, served.port()));
  own.Settle();
  EXPECT_EQ(served.On([](StoreServer& server) { return server.rejected(); }), 1u);
  StoreOptions open;
  open.allowed = *AllowList::Parse("any");
  EXPECT_TRUE(AnswersUser(kNobody, Served(open).port()));
}

// Its bytes could be any client's.
TEST(StoreClients, ThatAreClosedAlreadyAreRejected) {
  StoreThread thread;
  auto listener = ListenOn({"127.0.0.1", 0});
  ASSERT_TRUE(listener);
  {
    Client gone(listener->endpoint.port);
    gone.Send(wire::Set("/k", "poison"));
  }
  HostedStore store(thread, {}, std::move(listener->fd));
  Client own(listener->endpoint.port);
  own.Settle();
  if (KernelTells(own)) {
    EXPECT_EQ(own.Ask(wire::GetNumKeys(), 8), wire::Raw(std::int64_t{0}));
  }
}

}  // namespace
}  // namespace ddprun
