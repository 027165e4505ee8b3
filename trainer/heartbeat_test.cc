#include "trainer/heartbeat.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <string>

namespace ddprun {
namespace {

// An agent's end of the notify socket.
struct Socket : testing::Test {
  std::string path = "/tmp/ddprun_heartbeat_" + std::to_string(::getpid());
  int fd = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

  void SetUp() override {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
    ::unlink(path.c_str());
    ASSERT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    const timeval limit{10, 0};
    ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  }
  void TearDown() override {
    ::close(fd);
    ::unlink(path.c_str());
  }
  std::string Next() const {
    char bytes[256];
    const ssize_t got = ::recv(fd, bytes, sizeof bytes, 0);
    return got < 0 ? "(nothing)" : std::string(bytes, static_cast<std::size_t>(got));
  }
};

// Else ranks that stand at one step would look as if one lagged, or none.
TEST_F(Socket, TheLastStepIsAlwaysReportedHoweverFastItCame) {
  const Notifier notifier(path);
  Heartbeat heartbeat(notifier);
  for (std::uint64_t step = 1; step <= 100'000; ++step) {
    heartbeat.Step(step);
  }
  heartbeat.Phase(kStepPhase);
  std::uint64_t seen = 0;
  std::string phase;
  while (seen < 100'000 || phase.empty()) {
    const Notification told = ParseNotification(Next());
    ASSERT_TRUE(told.step || told.phase);
    seen = told.step.value_or(seen);
    phase = told.phase.value_or(phase);
  }
  EXPECT_EQ(phase, "step");
}

TEST_F(Socket, ALongPhaseAsksForTime) {
  const Notifier notifier(path);
  Heartbeat heartbeat(notifier);
  heartbeat.Phase(kCheckpointPhase);
  EXPECT_EQ(Next(), "PHASE=checkpoint\nEXTEND_TIMEOUT_USEC=600000000\n");
}

TEST_F(Socket, NothingIsSaidTwice) {
  const Notifier notifier(path);
  {
    Heartbeat heartbeat(notifier);
    heartbeat.Step(7);
    EXPECT_EQ(Next(), "STEP=7\n");
    heartbeat.Step(7);
    heartbeat.Step(8);
    EXPECT_EQ(Next(), "STEP=8\n");
  }
  char byte = 0;
  EXPECT_LT(::recv(fd, &byte, 1, MSG_DONTWAIT), 0);
}

// Between two datagrams many steps may lie: the quickest of them is reported, and none twice.
TEST_F(Socket, TheQuickestStepSinceTheLastIsReported) {
  using std::chrono::microseconds;
  const Notifier notifier(path);
  Heartbeat heartbeat(notifier);
  heartbeat.Resume(700);
  EXPECT_EQ(Next(), "RESUME=700\nSTEP=700\n");
  heartbeat.Step(701, microseconds(41'000));
  EXPECT_EQ(Next(), "STEP=701\nWORK_USEC=41000\n");
  microseconds least = microseconds::max();
  for (std::uint64_t step = 702; step <= 100'000; ++step) {
    heartbeat.Step(step, microseconds(step == 50'000 ? 7 : 41'000));
  }
  for (std::uint64_t seen = 701; seen < 100'000;) {
    const Notification told = ParseNotification(Next());
    ASSERT_TRUE(told.step);
    seen = *told.step;
    least = std::min(least, told.work.value_or(microseconds::max()));
  }
  EXPECT_EQ(least, microseconds(7));
  heartbeat.Step(100'001);
  EXPECT_EQ(Next(), "STEP=100001\n");
}

// A world that is killed before the thread's next iteration has still reported where it continued.
TEST_F(Socket, WhereTrainingContinuesIsReportedAtOnceAndOnce) {
  const Notifier notifier(path);
  {
    Heartbeat heartbeat(notifier);
    heartbeat.Resume(700);
    char bytes[64];
    const ssize_t got = ::recv(fd, bytes, sizeof bytes, MSG_DONTWAIT);
    ASSERT_GT(got, 0) << "nothing was told";
    EXPECT_EQ(std::string(bytes, static_cast<std::size_t>(got)), "RESUME=700\nSTEP=700\n");
    heartbeat.Step(701);
    EXPECT_EQ(Next(), "STEP=701\n");  // Its start is over then.
  }
  char byte = 0;
  EXPECT_LT(::recv(fd, &byte, 1, MSG_DONTWAIT), 0);
}

// The agent passes over what it does not know.
TEST_F(Socket, TellsHowItGoes) {
  const Notifier notifier(path);
  Heartbeat heartbeat(notifier);
  heartbeat.Report({0.25, 51200, 1000});
  const std::string told = Next();
  EXPECT_EQ(told, "LOSS=0.25\nSAMPLES_PER_S=51200\nCHECKPOINT=1000\n");
  const Notification understood = ParseNotification(told);
  EXPECT_FALSE(understood.step || understood.phase || understood.ready);
  heartbeat.Report({0.5, 1, std::nullopt});
  EXPECT_EQ(Next(), "LOSS=0.5\nSAMPLES_PER_S=1\n");
  heartbeat.Report({0.5, 1, std::nullopt, 4690});
  EXPECT_EQ(ParseNotification(Next()).steps, 4690u);
}

}  // namespace
}  // namespace ddprun
